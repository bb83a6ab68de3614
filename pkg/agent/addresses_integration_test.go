//go:build integration

package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/wait"
)

// abroad is a provider that has the addresses which a server outside of the cluster has, and blue its consumer.
type abroad struct {
	*judged
	t                     *testing.T
	server, other, client *testPod
}

func newAbroad(t *testing.T) *abroad {
	a := &abroad{judged: newJudged(t), t: t}
	a.found("abroad")
	at4, at6 := netip.MustParseAddr(a.world.v4), netip.MustParseAddr(a.world.v6)
	a.alters("abroad", func(n *model.Network) {
		n.Subnets = []model.Subnet{{
			Name: "away", CIDRs: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:51::/64")},
			// No pod has the server's.
			Exclude: []model.AddrRange{{First: at4, Last: at4}, {First: at6, Last: at6}},
		}}
	})
	a.server, a.other, a.client = a.pod("abroad", "server", "", "server"), a.pod("abroad", "other", "", "other"), a.pod("blue", "client", "",
		"web")
	for _, p := range []*testPod{a.server, a.other} {
		serveSeen(t, p.inside, p.request.Pod.Name)
	}
	serveSeen(t, a.world.inside, "outside")
	return a
}

// alters changes a Network for the controller and for the agent.
func (a *abroad) alters(network string, do func(*model.Network)) {
	a.t.Helper()
	n := *a.agent.world.Network(uidOf(network))
	do(&n)
	a.agent.world.SetNetwork(&n)
	must(a.t, a.agent.portholes.Refresh(a.t.Context(), portholes.Trusting))
	a.change(func(c *model.Changes) { c.Networks[network] = &n })
}

// offers makes abroad the provider of some, by its pods' own addresses or not.
func (a *abroad) offers(addresses bool, consumers ...string) {
	a.t.Helper()
	a.alters("abroad", func(n *model.Network) {
		n.CompatibleWith = nil
		for _, c := range consumers {
			n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: c, Addresses: addresses})
		}
	})
}

func own(p *testPod) [2]netip.Addr {
	return [2]netip.Addr{p.nic.Addresses[0].Addr(), p.nic.Addresses[1].Addr()}
}

func faces(p *testPod) [2]netip.Addr { return [2]netip.Addr{p.nic.Faces[0], p.nic.Faces[1]} }

// told is what the client is told at an address, without the port from which it came.
func (a *abroad) told(network string, to netip.Addr) string {
	conn, told, err := dial(wait.Context(a.t, time.Second), a.client.inside, network, to, 0)
	if err != nil {
		return ""
	}
	conn.Close()
	return strings.NewReplacer("[", "", "]", "").Replace(told[:strings.LastIndex(told, ":")])
}

// want waits until the client is answered by who has a name, or by nobody, and expects it by all protocols: it is seen as its own face.
func (a *abroad) want(what string, at [2]netip.Addr, who string) {
	a.t.Helper()
	for family, to := range at {
		want := ""
		if who != "" {
			want = fmt.Sprintf("%s sees %s", who, a.client.nic.Faces[family])
		}
		if who == "outside" {
			want = who
		}
		is := func(told string) bool {
			return told == want || who == "outside" && strings.HasPrefix(told, "outside sees")
		}
		until := func(so func() bool) {
			a.t.Helper()
			await(a.t, func() *bool {
				if so() {
					return new(bool)
				}
				return nil
			})
		}
		until(func() bool { return is(a.told("tcp", to)) })
		if who != "" {
			// Others send once: what comes while OVN is still at it may be lost. Who is not to be answered must not be even once.
			until(func() bool { return is(a.told("udp", to)) })
			until(func() bool { return echoes(wait.Context(a.t, time.Second), a.client.inside, to) == nil })
			continue
		}
		if got := a.told("udp", to); got != "" {
			a.t.Errorf("%s: %s by udp: %q, want silence", what, to, got)
		}
		if echoes(wait.Context(a.t, time.Second), a.client.inside, to) == nil {
			a.t.Errorf("%s: an echo of %s is answered", what, to)
		}
	}
}

// TestOwnAddressesOfAProvider: a consumer's pods dial a provider's by the addresses that these have, where it is offered: they
// reach them and nobody else, and nobody outside who has the same addresses. They are seen as their faces, and judged as if they
// had dialled faces.
func TestOwnAddressesOfAProvider(t *testing.T) {
	a := newAbroad(t)
	outside := [2]netip.Addr{netip.MustParseAddr(a.world.v4), netip.MustParseAddr(a.world.v6)}
	a.offers(false, "blue")
	a.want("a face", faces(a.server), "server")
	a.want("a server outside, not offered", outside, "outside")
	for _, to := range own(a.server) {
		if got := a.told("tcp", to); got != "" {
			t.Errorf("not offered, %s is answered: %q", to, got)
		}
	}

	outward, _, err := dial(wait.Context(t, 3*time.Second), a.client.inside, "tcp", outside[0], 0)
	must(t, err)
	defer outward.Close()
	must(t, says(outward, "before"))

	a.offers(true, "blue")
	a.want("an own address", own(a.server), "server")
	if err := says(outward, "after"); err == nil {
		t.Error("a connection to a server outside goes on when its address is the provider's")
	}
	a.want("a face", faces(a.server), "server")
	a.want("another's own address", own(a.other), "other")
	a.want("a server outside, of which the provider has the addresses", outside, "")
	for _, to := range own(a.server) {
		err := a.client.inside(func() error {
			conn, err := net.Dial("udp", net.JoinHostPort(to.String(), "9"))
			if err != nil {
				return err
			}
			defer conn.Close()
			defer wait.Limit(conn, 3*time.Second)()
			if _, err := conn.Write([]byte("anybody?")); err != nil {
				return err
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a port of %s at which nobody listens: %v, want a refusal", to, err)
		}
	}

	// Policies of both ends judge whom it is, as by face.
	a.policy(meeting("blue", model.PolicyEgress, podsOf("abroad", "server")))
	a.wantPolicy("when blue sends to the server alone", "server")
	block := func(cidrs ...netip.Addr) model.Policy {
		p := meeting("blue", model.PolicyEgress, match.Pods{})
		p.Rules[model.PolicyEgress] = []model.Rule{{Verdict: model.Allow, AnyPort: true}}
		for _, c := range cidrs {
			p.Rules[model.PolicyEgress][0].Peers = append(p.Rules[model.PolicyEgress][0].Peers, model.Peer{
				Block: &model.Block{CIDR: netip.PrefixFrom(c, c.BitLen())},
			})
		}
		return p
	}
	a.policy(block(own(a.server)[0], own(a.server)[1]))
	a.wantPolicy("when blue sends to blocks of own addresses", "")
	a.policy(block(faces(a.server)[0], faces(a.server)[1]))
	a.wantPolicy("when blue sends to blocks of faces", "server")
	a.withdraw(block())
	a.wantPolicy("without policies", "server other")
	a.policy(meeting("abroad", model.PolicyIngress, podsOf("blue", "db")))
	a.wantPolicy("when abroad receives of another pod alone", "")
	a.policy(meeting("abroad", model.PolicyIngress, podsOf("blue", "web")))
	a.wantPolicy("when abroad receives of the client", "server other")
	a.withdraw(meeting("abroad", model.PolicyIngress, match.Pods{}))

	// A connection ends with compatibility. When own addresses are dialled no more it may go on, as by its face. In either case what
	// is outside means itself again.
	for what, way := range map[string]struct {
		end  func()
		ends bool
	}{
		"compatibility has ended": {func() { a.offers(true) }, true},
		"faces alone are dialled": {func() { a.offers(false, "blue") }, false},
	} {
		conn, _, err := dial(wait.Context(t, 3*time.Second), a.client.inside, "tcp", own(a.server)[0], 0)
		must(t, err)
		must(t, says(conn, "before"))
		way.end()
		a.want("a server outside, when "+what, outside, "outside")
		if err := says(conn, "after"); err == nil && way.ends {
			t.Errorf("a connection goes on when %s", what)
		}
		conn.Close()
		a.offers(true, "blue")
		a.want("an own address again", own(a.server), "server")
		a.want("a server outside again", outside, "")
	}

	// The control: without what keeps it inside, what no pod has leaves the cluster all the same.
	door := porthole.IDOf(uidOf("blue")).Name()
	without(t, wall{door, "flush set inet atoll addressed4"}, wall{door, "flush set inet atoll addressed6"})
	a.want("a server outside, without the wall", outside, "outside")
}

// wantPolicy waits until those of the provider's pods answer at their own addresses whose names are given, and expects the same of UDP.
func (a *abroad) wantPolicy(when, want string) {
	a.t.Helper()
	reached := func(network string, family int) string {
		var out []string
		for _, p := range []*testPod{a.server, a.other} {
			if a.told(network, own(p)[family]) != "" {
				out = append(out, p.request.Pod.Name)
			}
		}
		return strings.Join(out, " ")
	}
	await(a.t, func() *bool {
		if reached("tcp", 0) == want {
			return new(bool)
		}
		return nil
	})
	for family := range 2 {
		for _, network := range []string{"tcp", "udp"} {
			if got := reached(network, family); got != want {
				a.t.Errorf("%s: by %s of family %d %q are reached, want %q", when, network, family, got, want)
			}
		}
	}
}
