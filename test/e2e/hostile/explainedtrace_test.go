//go:build e2e

package hostile

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix/explained"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/ovn"
)

// perTracer is how many packets one ovn-trace is asked about: each takes several of the answers that it has from connection tracking.
const perTracer = 500

// inFull is of how many disagreements each step is printed.
const inFull = 3

// traces has ovn-trace follow what pods dial, with the rows of the southbound database as they are, and compares where it comes
// out with what explain says. It returns what was compared, and why the rest was not.
func (e *explainer) traces(t *testing.T) string {
	t.Helper()
	ports, err := e.ports(t)
	if err != nil {
		t.Fatal(err)
	}
	var tracer *ovn.Tracer
	t.Cleanup(func() {
		if tracer != nil {
			tracer.Stop()
		}
	})
	asked, compared, outcomes, wrong, not := 0, 0, map[string]int{}, 0, map[string]int{}
	for i, q := range e.questions {
		if q.From < 0 {
			not["it does not begin at a pod"]++
			continue
		}
		if len(q.Dial) == 0 {
			not["nothing is dialled"]++
		}
		for _, a := range q.Dial {
			flow, err := ports[q.From].Microflow(a, wire.Protocol(q.Spec.Protocol), q.Spec.Port)
			if err != nil {
				not[err.Error()]++
				continue
			}
			if asked%perTracer == 0 {
				if tracer != nil {
					tracer.Stop()
				}
				socket := filepath.Join(t.TempDir(), "ctl")
				if tracer, err = ovn.TraceAt(t.Context(), env.SBAddress(), socket, "new"); err != nil {
					t.Fatal(err)
				}
			}
			asked++
			text, err := tracer.Ask(flow)
			if err != nil {
				t.Fatal(err)
			}
			traced := explained.ReadTrace(text)
			what, err := explained.JudgeTrace(e.stage, q, e.said[i], a, traced)
			switch {
			case err != nil:
				not[err.Error()]++
				continue
			case what != "":
				wrong++
				steps := ""
				if wrong <= inFull {
					steps, _ = tracer.Detail(flow)
				}
				t.Errorf("%s: dialled %s: %s\nexplained: %s\n%+v\novn-trace %s:\n%s\n%s", q, a, what, e.said[i].Status.Verdict, e.said[i].Status.Ways,
					flow, text, steps)
			}
			compared++
			switch {
			case len(traced) == 0:
				outcomes["dropped"]++
			case strings.HasSuffix(traced[0], ":porthole"):
				outcomes["to a porthole"]++
			case strings.Contains(traced[0], ":node:"):
				outcomes["to a node"]++
			default:
				outcomes["to a pod"]++
			}
		}
	}
	if compared == 0 {
		t.Error("ovn-trace was asked about nothing")
	}
	return fmt.Sprintf("ovn-trace: %d packets compared (%s), %d disagreements; not traced: %s", compared, explained.Join(outcomes), wrong,
		explained.Join(not))
}

// ports are the switch ports of the stage's pods, in its order.
func (e *explainer) ports(t *testing.T) ([]explained.Port, error) {
	t.Helper()
	var out []explained.Port
	byUUID, switches, routers := map[string]*nb.LogicalSwitchPort{}, map[string]*nb.LogicalSwitch{}, map[string]*nb.LogicalRouterPort{}
	for _, row := range env.NB.Rows(t) {
		switch r := row.(type) {
		case *nb.LogicalSwitchPort:
			byUUID[r.UUID] = r
		case *nb.LogicalSwitch:
			switches[r.Name] = r
		case *nb.LogicalRouterPort:
			routers[r.Name] = r
		}
	}
	for _, p := range e.stage.Pods {
		in := cluster.AttachmentOf(t, member(t, p.String()))
		name := in.Network + "/" + in.Subnet
		sw, gateway := switches[name], routers[name+":gateway"]
		if sw == nil || gateway == nil {
			return nil, fmt.Errorf("%s is in switch %s, which is not there or has no router: %v", p, name, slices.Sorted(maps.Keys(switches)))
		}
		port := explained.Port{Name: p.String(), MAC: in.MAC, Gateway: gateway.MAC, Subnet: in.Addresses, Neighbours: map[netip.Addr]string{}}
		for _, uuid := range sw.Ports {
			neighbours(port.Neighbours, byUUID[uuid])
		}
		for _, cidr := range gateway.Networks {
			if own, err := netip.ParsePrefix(cidr); err == nil {
				port.Neighbours[own.Addr()] = gateway.MAC
			}
		}
		out = append(out, port)
	}
	return out, nil
}

// neighbours adds the addresses of a port: "MAC IP...".
func neighbours(to map[netip.Addr]string, port *nb.LogicalSwitchPort) {
	if port == nil {
		return
	}
	for _, text := range port.Addresses {
		mac, addresses, _ := strings.Cut(text, " ")
		for word := range strings.FieldsSeq(addresses) {
			if a, err := netip.ParseAddr(word); err == nil {
				to[a] = mac
			}
		}
	}
}
