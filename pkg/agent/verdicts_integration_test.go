//go:build integration

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/atoll-net/atoll/pkg/agent/verdicts"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// counter begins to count on the node of the test.
func (j *judged) counter() *verdicts.Counter {
	j.tb.Helper()
	v := verdicts.New(verdicts.Config{
		Node: j.name, Socket: filepath.Join(j.dir, "br-int.mgmt"), Log: j.agent.log,
		Southbound: (&southbound{told: "unix:" + filepath.Join(j.central, "ovn.sock"), log: j.agent.log}).read,
	})
	ctx, cancel := context.WithCancel(j.tb.Context())
	done := make(chan error, 1)
	go func() { done <- v.Serve(ctx) }()
	j.tb.Cleanup(func() {
		cancel()
		must(j.tb, <-done)
	})
	return v
}

// packetsOf are the packets of a policy's rule, and of what it drops of a pod.
func packetsOf(t *testing.T, v *verdicts.Counter, policy, rule, pod string) (packets, dropped uint64) {
	t.Helper()
	counts, err := v.Ask(t.Context(), true)
	must(t, err)
	for _, c := range counts {
		if c.Network == "red" && c.Policy == policy && c.Rule == rule {
			return c.Packets, c.Pods[pod]
		}
	}
	return 0, 0
}

// Each packet that a rule decides about is counted once, for the policy and the rule that decide, and what isolation drops for
// the pod that it was meant for.
func TestVerdictsAreCounted(t *testing.T) {
	j := newJudged(t)
	web, friend, stranger := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "friend", "10.0.0.6", "friend"), j.pod("red", "stranger",
		"10.0.0.7", "stranger")
	own := netip.MustParseAddr("10.0.0.5")
	seen := countArrivals(t, web, 9000, 9000)
	v := j.counter()
	const friends = "NetworkPolicy/red/friends"
	if n, _ := packetsOf(t, v, friends, "0", ""); n != 0 {
		t.Errorf("%d packets of a policy that is not there", n)
	}
	j.policy(allowing("red", "friends", "web", "friend", 9000, 9000))
	// A rule is listed once its flows are there. Nothing has been sent so far: what Open vSwitch has not counted yet when flows
	// change, it counts for the new ones.
	await(t, func() *bool {
		counts, err := v.Ask(t.Context(), true)
		must(t, err)
		if slices.ContainsFunc(counts, func(c model.VerdictCount) bool { return c.Policy == friends && c.Rule == "0" }) {
			return new(bool)
		}
		return nil
	})
	// What comes to the rule, and no more. The datagrams are connections of their own: each port is used once.
	const many = 100
	sendOne := func(p *testPod, port int) {
		t.Helper()
		must(t, p.inside(func() error { return sendDatagram(netip.AddrPortFrom(own, uint16(port)), "counted") }))
	}
	for range many {
		sendOne(friend, 9000)
	}
	await(t, func() *bool {
		if n, _ := packetsOf(t, v, friends, "0", ""); n >= many {
			return new(bool)
		}
		return nil
	})
	if n, _ := packetsOf(t, v, friends, "0", ""); n != many {
		t.Errorf("the rule counts %d packets, %d were sent", n, many)
	}
	// What no policy allows is isolation's, and the pod's that it was for.
	for range many {
		sendOne(stranger, 9000)
		sendOne(friend, 9001)
	}
	await(t, func() *bool {
		if n, _ := packetsOf(t, v, nb.Isolation, "", ""); n >= 2*many {
			return new(bool)
		}
		return nil
	})
	dropped, ofWeb := packetsOf(t, v, nb.Isolation, "", "red/web")
	if dropped != 2*many || ofWeb != 2*many {
		t.Errorf("isolation dropped %d packets, of red/web %d; %d were sent", dropped, ofWeb, 2*many)
	}
	// A change of the policy leaves what has been counted.
	total, _ := packetsOf(t, v, friends, "0", "")
	j.policy(allowing("red", "friends", "web", "friend", 9000, 9005))
	j.nbctl("--wait=hv", "sync")
	sendOne(friend, 9005)
	await(t, func() *bool {
		if n, _ := packetsOf(t, v, friends, "0", ""); n > total {
			return new(bool)
		}
		return nil
	})
	wantSeries(t, verdicts.NewCollector(v), []string{
		fmt.Sprintf(`atoll_agent_policy_packets_total{direction="Ingress",network="red",policy="isolation",verdict="drop"} %d`, 2*many),
		fmt.Sprintf(`atoll_agent_policy_packets_total{direction="Ingress",network="red",policy="NetworkPolicy/red/friends",verdict="allow"} %d`,
			total+1),
	})
	// A policy that has gone is counted no more.
	j.withdraw(model.Policy{Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "friends"}})
	arrives(t, stranger, own, 9000, seen, "stranger")
	await(t, func() *bool {
		counts, err := v.Ask(t.Context(), true)
		must(t, err)
		for _, c := range counts {
			if c.Policy == friends || c.Policy == nb.Isolation {
				return nil
			}
		}
		return new(bool)
	})
}

// sendDatagram sends one from a port of its own.
func sendDatagram(to netip.AddrPort, text string) error {
	conn, err := net.Dial("udp", to.String())
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(text))
	return errors.Join(err, conn.Close())
}

// wantSeries wants lines among what a collector gives.
func wantSeries(t *testing.T, c prometheus.Collector, want []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(c))
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := page.Body.String()
	for _, line := range want {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
}
