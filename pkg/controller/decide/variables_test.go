package decide_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// variables counts those that node n1 has.
func (w *world) variables() int {
	facts, _ := w.graph.Facts(nb.PlaceOwner("n1"))
	return len(facts.Members)
}

// atPorts is the Service web of r with TCP ports from the first one on.
func atPorts(first uint16, ports int) model.Service {
	s := service("r", "web", "10.96.0.5")
	s.Ports, s.Local = nil, true
	for i := range ports {
		s.Ports = append(s.Ports, model.ServicePort{Protocol: model.TCP, Port: first + uint16(i)})
	}
	return s
}

// TestNewVariablesAreBounded: each new port of Services that go by place has ovn-northd compute everything anew. A tenant brings
// 32 within ten minutes, and waits for more; those that it had cost nothing again; and others are not kept from theirs.
func TestNewVariablesAreBounded(t *testing.T) {
	w, _ := zonedWorld(t)
	w.setNamespace("other", map[string]string{model.LabelNetwork: "red"})
	start := time.Unix(6000, 0)
	w.state.Turn(start)
	w.settle()
	w.setService(atPorts(1000, 32))
	w.settle()
	if got := w.variables(); got != 32 {
		t.Fatalf("node n1 has %d variables, want 32", got)
	}
	for range 3 {
		w.setService(atPorts(3000, 0))
		w.settle()
		w.setService(atPorts(1000, 32))
		w.settle()
	}
	if got, told := w.variables(), w.eventsOf("service r/web"); got != 32 || len(told) > 0 {
		t.Fatalf("the same ports that come and go: node n1 has %d variables, and the owner was told %+v", got, told)
	}
	w.setService(atPorts(1001, 32))
	w.settle()
	if got := w.variables(); got != 32 {
		t.Errorf("with a 33rd port node n1 has %d variables, want 32", got)
	}
	if led := w.near(t, "red", "n1", "10.96.0.5:1031", model.TCP); led != "2" {
		t.Errorf("the port that is not new leads to %q, want the pod of the client's node", led)
	}
	if led := w.near(t, "red", "n1", "10.96.0.5:1032", model.TCP); led != "none" {
		t.Errorf("the port that waits leads to %q, want nobody: the Service is Local", led)
	}
	if told := w.eventsOf("service r/web"); len(told) != 1 || told[0].Reason != model.ReasonPortsWait {
		t.Errorf("the owner was told %+v", told)
	}
	preferred := atPorts(1001, 32)
	preferred.Local, preferred.Prefers = false, model.PrefersZone
	other := preferred
	other.Key, other.UID = model.ServiceKey{Namespace: "other", Name: "web"}, "uid-other-web"
	other.ClusterIPs = []netip.Addr{at("10.96.0.6")}
	w.setService(other)
	w.settle()
	if got := w.variables(); got != 64 || len(w.eventsOf("service other/web")) > 0 {
		t.Errorf("with another tenant's 32 node n1 has %d variables, want 64; its owner was told %+v", got, w.eventsOf("service other/web"))
	}
	w.deleteService(other.Key)
	if due, ok := w.state.Due(); !ok || due.After(start.Add(11*time.Minute)) {
		t.Errorf("what waits is due at %s", due)
	}
	w.turn(start.Add(10 * time.Minute))
	if led := w.near(t, "red", "n1", "10.96.0.5:1032", model.TCP); led != "2" {
		t.Errorf("after ten minutes the port that waited leads to %q", led)
	}
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	w.turn(start.Add(10*time.Minute + time.Second))
	if w.variables() == 0 {
		t.Error("nodes forget variables at once that nobody needs any more")
	}
	w.turn(start.Add(time.Hour))
	if due, ok := w.state.Due(); ok || w.placeRows() != 0 {
		t.Errorf("%d nodes have variables after an hour, and something is due at %s", w.placeRows(), due)
	}
}

// TestPreferencesWaitForVariables: a Service that only prefers endpoints leads everybody to all of them while it waits.
func TestPreferencesWaitForVariables(t *testing.T) {
	w, of := zonedWorld(t)
	w.state.Turn(time.Unix(6000, 0))
	for i := range of.Endpoints {
		of.Endpoints[i].ForZones = []string{map[string]string{"n1": "a", "n2": "a", "n3": "b"}[of.Endpoints[i].Node]}
	}
	w.setSlice(of)
	w.settle()
	s := atPorts(1000, 33)
	s.Local, s.Prefers = false, model.PrefersZone
	w.setService(s)
	w.settle()
	led := map[string]int{}
	for i := range 33 {
		led[w.near(t, "red", "n3", fmt.Sprint("10.96.0.5:", 1000+i), model.TCP)]++
	}
	if led["4"] != 32 || led["2 3 4"] != 1 {
		t.Errorf("clients in zone b are led to %v, want 32 ports to the pod of their zone and one to all", led)
	}
	if told := w.eventsOf("service r/web"); len(told) != 1 || !strings.Contains(told[0].Message, "any endpoint") {
		t.Errorf("the owner was told %+v", told)
	}
}

// TestAServiceOfAnotherProxy: with the label service.kubernetes.io/service-proxy-name Networks do not know a Service.
func TestAServiceOfAnotherProxy(t *testing.T) {
	w, _, _ := servedWorld(t)
	if len(w.lbs("r", "web")) == 0 {
		t.Fatal("without the label, the control, the Service is not served")
	}
	s := service("r", "web", "10.96.0.5")
	s.OfAnotherProxy = true
	w.setService(s)
	w.wantLBs(t, "r", "web", map[string]map[string]string{})
}
