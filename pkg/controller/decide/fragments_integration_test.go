//go:build integration

package decide_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// A datagram of the length large takes three frames of a guest.
const (
	small = 20
	large = 3000
)

// What becomes of datagrams that are larger than the MTU, by a Service and under policies. The kernel's datapath loses none. The
// userspace datapath hands OVN each fragment by itself, and a fragment has no port to be matched. If one arrives here that is
// said to be lost, OVN has learned better, and what docs/services.md and docs/policy.md say is no longer so.
func TestFragmentsWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	s.answersInFull(s.pod("r", "one"), 8080)
	s.setService(dualService("r", "web"))
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what, address string, lengths []int, userspace string) {
		t.Helper()
		want := userspace
		if datapath == ovn.SystemDatapath {
			want = strings.TrimSuffix(strings.Repeat("answered ", len(lengths)), " ")
		}
		if got := s.sends(client, address, small, lengths...); got != want {
			t.Errorf("%s, %s: %v becomes %s, want %s", what, address, lengths, got, want)
		}
		if got := s.sends(client, address, large, small, small); got != "answered answered" {
			t.Errorf("%s, %s: large answers become %s", what, address, got)
		}
	}
	// A small one makes the way for those that follow, repeating a large one does not. It is refused as if nobody served it.
	for i, vip := range vips("r") {
		s.leadsTo("r", "web", i == 1, "one")
		refused := [2]string{"connection refused", "permission denied"}[i]
		expect("a Service", vip, []int{large, large, small, large, large}, refused+" "+refused+" answered answered answered")
	}
	anybody := []model.Peer{{Pods: &match.Pods{}}}
	number := []model.Rule{{Verdict: model.Allow, Peers: anybody, Ports: []model.PolicyPort{{Protocol: model.UDP, First: 8080, Last: 8080}}}}
	protocol := []model.Rule{{Verdict: model.Allow, Peers: anybody, Ports: []model.PolicyPort{{Protocol: model.UDP, Last: 65535}}}}
	peers := []model.Rule{{Verdict: model.Allow, Peers: anybody, AnyPort: true}}
	lost, answered := "lost answered lost answered", "answered answered answered answered"
	for _, p := range []struct {
		name      string
		rules     [2][]model.Rule
		userspace [2]string
	}{
		{"ingress-port", [2][]model.Rule{number, nil}, [2]string{lost, lost}},
		{"egress-port", [2][]model.Rule{nil, number}, [2]string{lost, lost}},
		// By IPv6 a fragment after the first has the fragment header's protocol.
		{"protocol", [2][]model.Rule{protocol, nil}, [2]string{answered, lost}},
		{"peers", [2][]model.Rule{peers, nil}, [2]string{answered, answered}},
	} {
		policy := model.Policy{
			Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "r", Name: p.name}, UID: "uid-" + p.name, Tier: model.TierTenant,
			Subject: match.Pods{Namespace: "r"}, Isolates: [2]bool{p.rules[0] != nil, p.rules[1] != nil}, Rules: p.rules,
		}
		s.setPolicy(policy)
		s.hasACLs(policy.Key, true)
		for i, want := range p.userspace {
			expect(p.name, netip.AddrPortFrom(s.own("r", "one", i == 1), 8080).String(), []int{large, small, large, small}, want)
		}
		s.deletePolicy(policy.Key)
		s.hasACLs(policy.Key, false)
	}
}

// hasACLs waits until the node has a policy's rules, or has them no more.
func (s *stage) hasACLs(key model.PolicyKey, want bool) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(want), func() string {
		names := nbctl(s.t, s.central, "--bare", "--columns=name", "list", "ACL")
		return fmt.Sprint(strings.Contains(names, key.Namespace+"/"+key.Name+":"))
	})
	s.sync()
}

// numbered is a datagram of a length that asks for an answer of another one.
func numbered(number, answer, length int) []byte {
	text := fmt.Appendf(nil, "%d %d ", number, answer)
	return append(text, bytes.Repeat([]byte("x"), length-len(text))...)
}

// answersInFull answers each datagram at a port with its number and the length that it asks for, until the test ends.
func (s *stage) answersInFull(g *ovn.Guest, port int) {
	s.t.Helper()
	var udp *net.UDPConn
	err := g.Do(func() (err error) {
		udp, err = net.ListenUDP("udp", &net.UDPAddr{Port: port})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = udp.Close() })
	go func() {
		packet := make([]byte, 2*large)
		for {
			n, client, err := udp.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			var number, answer int
			if _, err := fmt.Sscanf(string(packet[:n]), "%d %d ", &number, &answer); err == nil {
				_, _ = udp.WriteToUDPAddrPort(numbered(number, 0, answer), client)
			}
		}
	}()
}

// sends sends datagrams of these lengths from one new port, each when the one before has been answered or is lost, and says which
// it was. One of which the answer comes late was not lost: the test fails.
func (s *stage) sends(client *ovn.Guest, address string, answer int, lengths ...int) string {
	s.t.Helper()
	c, err := dial(s.t, client, "udp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	var out []string
	for i, length := range lengths {
		if _, err := c.Write(numbered(i, answer, length)); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, s.hears(c, numbered(i, 0, answer)))
	}
	return strings.Join(out, " ")
}

// hears waits for an answer.
func (s *stage) hears(c talk, want []byte) string {
	s.t.Helper()
	defer wait.Limit(c, patience)()
	packet := make([]byte, 2*large)
	n, err := c.Read(packet)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "lost"
	case err != nil:
		return refusal(err)
	case !bytes.Equal(packet[:n], want):
		s.t.Fatalf("an answer of %d bytes, %.20q, want %d, %.20q", n, packet[:n], len(want), want)
	}
	return "answered"
}
