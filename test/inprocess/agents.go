package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/inspectapi"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// agents are those of all nodes. Who is in the same Network is reached, and nobody else; policies are not known here.
type agents struct {
	held     func() model.Changes
	ill      bool
	mute     bool
	repaired atomic.Bool
}

func (a *agents) all() inspectapi.Agents {
	return inspectapi.Agents{Ping: a.ping, Capture: a.capture, Observe: a.observe, Connect: a.connect}
}

// at is the pod that has an address in a Network.
func (a *agents) at(network string, address netip.Addr) *model.Pod {
	for _, pod := range a.held().Pods {
		for _, attachment := range pod.Assigned {
			for _, own := range attachment.Addresses {
				if attachment.Network == network && own.Addr() == address {
					return pod
				}
			}
		}
	}
	return nil
}

func (a *agents) ping(_ context.Context, on snapshot.Sender, q nodeapi.Question, each func(ping.Reply) error) error {
	for _, target := range q.Ping.Targets {
		for n := range q.Ping.Count {
			reply := ping.Reply{Target: target, Number: q.Ping.First + n, Answered: true, Took: 1500 * time.Microsecond}
			if a.at(on.Network, target) == nil {
				reply = ping.Reply{Target: target, Number: q.Ping.First + n, Why: "no answer"}
			}
			if err := each(reply); err != nil {
				return err
			}
		}
	}
	return nil
}

// packet is a frame of Ethernet with nothing in it.
var packet = append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}, make([]byte, 46)...)

func (a *agents) capture(_ context.Context, _ snapshot.Sender, _ nodeapi.CaptureQuestion, each func(nodeapi.CaptureLine) error) error {
	counts := api.PodCaptureCounts{Received: 1}
	return errors.Join(
		each(nodeapi.CaptureLine{Begun: true}),
		each(nodeapi.CaptureLine{
			Update: &capture.Update{Packets: []api.PodCapturePacket{{Time: time.Now().UnixNano(), Length: len(packet), Data: packet}}},
		}),
		each(nodeapi.CaptureLine{Outcome: &capture.Outcome{Counts: counts, Told: 1}}),
	)
}

// observe watches and sees nothing: no packet is really sent here.
func (a *agents) observe(ctx context.Context, _ snapshot.Sender, _ nodeapi.ObserveQuestion, each func(nodeapi.ObserveLine) error) error {
	beat := time.NewTicker(time.Millisecond)
	defer beat.Stop()
	for {
		if err := each(nodeapi.ObserveLine{}); err != nil {
			return err
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// connect leads to a daemon, which says what it was told to do.
func (a *agents) connect(_ context.Context, on snapshot.Sender, q nodeapi.ConnectQuestion) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		for requests, answers := json.NewDecoder(far), json.NewEncoder(far); ; {
			var r struct {
				ID     any
				Method string
			}
			if requests.Decode(&r) != nil {
				return
			}
			_ = answers.Encode(map[string]any{
				"id": r.ID, "result": fmt.Sprintf("%s of node %s does %s\n", q.Socket, on.Node, r.Method), "error": nil,
			})
		}
	}()
	return near, nil
}

func (a *agents) flows(_ context.Context, on snapshot.AgentNode, q nodeapi.FlowsQuestion, each func(model.Flow) error) error {
	if a.ill && on.Name == "n2" {
		return errors.New("connection refused")
	}
	if a.mute {
		return errors.New("OVN's southbound database was not asked: there is no certificate")
	}
	for _, f := range a.seen(on.Name) {
		if q.All || q.Flows.Asks(f) {
			if err := each(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// check tells that node n2 of an ill cluster lacks something, until it is repaired.
func (a *agents) check(_ context.Context, on snapshot.AgentNode, q nodeapi.CheckQuestion) (out api.NodeCheckStatus, err error) {
	out.Interfaces, out.Portholes = 2, 1
	differs := []api.NodeDifference{
		{Owner: "Network/red", Kind: api.NodeObjectMissing, Object: "routes", Want: "10.0.0.0/24 via 169.254.100.1"},
	}
	switch {
	case !a.ill || on.Name != "n2" || a.repaired.Load():
	case q.Repair:
		a.repaired.Store(true)
		out.Repaired = differs
	default:
		out.Differences = differs
	}
	return out, nil
}

// seen are the flows that a node keeps: web has dialled db twice, and something else has tried to.
func (a *agents) seen(node string) (out []model.Flow) {
	held := a.held()
	for _, pod := range held.Pods {
		if pod.Node != node || pod.Key != (model.PodKey{Namespace: "red", Name: "db-0"}) || len(pod.Assigned) == 0 {
			continue
		}
		web := held.Pods[model.PodKey{Namespace: "red", Name: "web-0"}]
		to := pod.Assigned[0].Addresses[0].Addr()
		now := time.Now().Add(-time.Minute)
		flow := model.Flow{
			Network: "red", Direction: "Ingress", Pod: pod.Key.String(), Destination: to, Protocol: "tcp", Port: 5432,
			Minute: now.Truncate(time.Minute), Last: now, Packets: 2, Bytes: 120, Connections: 2,
		}
		allowed, dropped := flow, flow
		allowed.Source, allowed.Policy, allowed.Rule, allowed.Verdict = web.Assigned[0].Addresses[0].Addr(), "NetworkPolicy/red/db-from-web",
			"0", "allow"
		dropped.Source, dropped.Policy, dropped.Verdict = netip.MustParseAddr("203.0.113.9"), "isolation", "drop"
		out = append(out, allowed, dropped)
	}
	return out
}
