package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// wide is a Service of namespace r that has ports, and its slice, which leads them to endpoints that are no pods.
func wide(name string, number, ports, endpoints int) (model.Service, model.Slice) {
	s := service("r", name, fmt.Sprintf("10.96.1.%d", number))
	s.Created = time.Unix(int64(number), 0)
	of := slice("r", name+"-1", name)
	s.Ports, of.Ports = nil, nil
	for i := range ports {
		s.Ports = append(s.Ports, model.ServicePort{Name: fmt.Sprint("p", i), Protocol: model.TCP, Port: uint16(1000 + i)})
		of.Ports = append(of.Ports, model.SlicePort{Name: fmt.Sprint("p", i), Protocol: model.TCP, Port: uint16(1000 + i)})
	}
	first := at("10.200.0.1")
	for range endpoints {
		of.Endpoints = append(of.Endpoints, endpoint("r", "", first.String()))
		first = first.Next()
	}
	return s, of
}

// leadsTo is how many endpoints each port of a Service of r leads to in Network red, and its last one.
func (w *world) leadsTo(name string) (ports, pairs int, last string) {
	for _, backends := range w.lbs("r", name)["red"] {
		ports++
		list := strings.FieldsFunc(backends, func(r rune) bool { return r == ',' })
		pairs += len(list)
		if len(list) > 0 {
			last = netip.MustParseAddrPort(list[len(list)-1]).Addr().String()
		}
	}
	return ports, pairs, last
}

func (w *world) wantLeadsTo(t *testing.T, when, name string, ports, endpoints int, last string) {
	t.Helper()
	w.settle()
	if p, pairs, l := w.leadsTo(name); p != ports || pairs != ports*endpoints || l != last {
		t.Errorf("%s: Service %s has %d ports with %d pairs, the last one %q; want %d ports of %d endpoints, the last one %q",
			when, name, p, pairs, l, ports, endpoints, last)
	}
}

// TestALargeServiceIsServedUpToItsBound: of too many endpoints the ready ones with the first addresses are served, so that
// what comes and goes beyond them changes nothing. Its owner is told once.
func TestALargeServiceIsServedUpToItsBound(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	s, of := wide("web", 1, model.MaxServicePorts, 64)
	w.setService(s)
	w.setSlice(of)
	w.wantLeadsTo(t, "as many as may be", "web", 256, 64, "10.200.0.64")
	if told := w.eventsOf("service r/web"); len(told) > 0 {
		t.Errorf("the owner of a Service within its bound was told %+v", told)
	}
	_, more := wide("web", 1, model.MaxServicePorts, 100)
	w.setSlice(more)
	w.wantLeadsTo(t, "more than may be", "web", 256, 64, "10.200.0.64")
	more.Endpoints = slices.Clone(more.Endpoints)
	more.Endpoints[9].Ready = false
	w.setSlice(more)
	w.wantLeadsTo(t, "one of the first is going", "web", 256, 64, "10.200.0.65")
	told := w.eventsOf("service r/web")
	if len(told) != 1 || told[0].Reason != model.ReasonServiceTooLarge || !strings.Contains(told[0].Message, "16384 pairs") {
		t.Errorf("the owner was told %+v", told)
	}

	_, few := wide("web", 1, 1, 100)
	s.Ports, s.Beyond = s.Ports[:1], 44
	w.setService(s)
	w.setSlice(few)
	w.wantLeadsTo(t, "few ports", "web", 1, 100, "10.200.0.100")
}

// TestServicesOfATenantAreBounded: all Services of a tenant together have no more pairs of a port and an endpoint than the
// bound. The older come first, and others than the tenant's do not count.
func TestServicesOfATenantAreBounded(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	w.setNamespace("other", map[string]string{model.LabelNetwork: "red"})
	for i := range 8 {
		s, of := wide(fmt.Sprint("s", i), i+1, model.MaxServicePorts, 64)
		w.setService(s)
		w.setSlice(of)
	}
	late, of := wide("late", 100, 1, 1)
	w.setService(late)
	w.setSlice(of)
	other := service("other", "web", "10.96.1.200")
	w.setService(other)
	w.wantLeadsTo(t, "the eighth", "s7", 256, 64, "10.200.0.64")
	w.wantLeadsTo(t, "the youngest", "late", 0, 0, "")
	if told := w.eventsOf("service r/late"); len(told) != 1 || told[0].Reason != model.ReasonServicesTooLarge {
		t.Errorf("the owner of the youngest Service was told %+v", told)
	}
	if a := w.services[late.Key].Assigned; a == nil || !a.Refused {
		t.Errorf("the youngest Service has %+v, want that it has no name", a)
	}
	if len(w.lbs("other", "web")) == 0 || len(w.eventsOf("service other/web")) > 0 {
		t.Errorf("another tenant's Service is not served: %v", w.eventsOf("service other/web"))
	}
	_, less := wide("s3", 4, model.MaxServicePorts, 63)
	w.setSlice(less)
	w.wantLeadsTo(t, "there is room", "late", 1, 1, "10.200.0.1")
	if a := w.services[late.Key].Assigned; a != nil {
		t.Errorf("the youngest Service is served, and has %+v", a)
	}
}
