//go:build integration

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// connections has a pod begin so many connections, by UDP from a port each, and gives how many were answered and how many
// refused.
func (p *testPod) connections(address string, many int) (answered, refused int) {
	p.tb.Helper()
	conns := make([]net.Conn, 0, many)
	must(p.tb, p.inside(func() error {
		for range many {
			conn, err := net.Dial("udp", address)
			if err != nil {
				return err
			}
			conns = append(conns, conn)
			if _, err := conn.Write([]byte("question")); err != nil {
				return err
			}
		}
		return nil
	}))
	ends := make(chan error, many)
	late := wait.Context(p.tb, 2*time.Second)
	for _, conn := range conns {
		defer context.AfterFunc(late, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
		go func() {
			_, err := conn.Read(make([]byte, 64))
			ends <- err
		}()
	}
	for range conns {
		if err := <-ends; err == nil {
			answered++
		} else if !os.IsTimeout(err) {
			refused++
		}
	}
	for _, conn := range conns {
		must(p.tb, conn.Close())
	}
	return answered, refused
}

// tracked is how many connections the node's own table has.
func tracked(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	must(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return n
}

// TestAPodHasNoMoreConnectionsThanItMay: one that begins more is told, and they are in no table; other pods, of its Network and of others,
// begin theirs meanwhile. Without the bound all of them are made.
func TestAPodHasNoMoreConnectionsThanItMay(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	const most, many = 50, 400
	bound := func(to uint32) {
		infra := testInfrastructure()
		infra.MaxConnections = to
		a.world.SetInfrastructure(infra)
		must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	}
	bound(most)
	red, neighbour, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "red", "two", 6, 7), n.addGuest(a, "blue", "one", 5, 6)
	infra := n.addDefaultPod(a, "infra", 5)
	for _, version := range []string{"udp4", "udp6"} {
		var server net.PacketConn
		must(t, world.inside(func() (err error) {
			server, err = net.ListenPacket(version, ":7")
			return err
		}))
		t.Cleanup(func() { _ = server.Close() })
		go func() {
			buffer := make([]byte, 64)
			for {
				n, peer, err := server.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = server.WriteTo(buffer[:n], peer)
			}
		}()
	}
	api := kubefake.NewClientset()
	a.teller = newTeller(testNode, api.CoreV1(), a.log)
	told := func(want ...string) {
		t.Helper()
		must(t, a.lookAtCrowds(t.Context()))
		events, err := api.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		var got []string
		for _, event := range events.Items {
			if event.Reason == model.ReasonConnectionsRefused {
				got = append(got, event.InvolvedObject.Namespace+"/"+event.InvolvedObject.Name)
			}
		}
		slices.Sort(got)
		if crowded := testutil.ToFloat64(a.metrics.crowded.WithLabelValues(crowdPast)); !slices.Equal(got, want) ||
			crowded != float64(len(want)) {
			t.Errorf("%v were told that connections are refused, and %v are counted; want %v", got, crowded, want)
		}
	}
	told()
	targets := []string{world.v4 + ":7", "[" + world.v6 + "]:7"}
	for _, who := range []*testPod{red, infra} {
		for _, target := range targets {
			t.Run(fmt.Sprintf("%s to %s", who.request.Pod.Key(), target), func(t *testing.T) {
				before := tracked(t)
				answered, refused := who.connections(target, many)
				t.Logf("of %d connections %d answered, %d refused; %d more in the node's table", many, answered, refused, tracked(t)-before)
				// Not each one is told: Linux sends few ICMP errors a second. Of TCP each one is.
				if answered > most || answered == 0 || refused == 0 || tracked(t)-before > most+10 {
					t.Errorf("want no more than %d, and to be told", most)
				}
			})
		}
	}
	for _, other := range []*testPod{neighbour, blue} {
		for _, target := range targets {
			if answered, refused := other.connections(target, most/2); answered < most/2-5 {
				t.Errorf("%s to %s: %d of %d answered, %d refused", other.request.Pod.Key(), target, answered, most/2, refused)
			}
		}
	}
	told("default/infra", "red/one")
	bound(0)
	before := tracked(t)
	answered, refused := red.connections(targets[0], many)
	t.Logf("without the bound: %d of %d answered, %d refused; %d more in the node's table", answered, many, refused, tracked(t)-before)
	if answered < 2*most {
		t.Error("without the bound they are not made either: this test shows nothing")
	}
}
