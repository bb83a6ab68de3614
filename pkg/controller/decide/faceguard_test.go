package decide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// guardOf is who has places in the guard's port groups and address sets, by their words; nil without a guard.
func (w *world) guardOf() map[string][]string {
	var out map[string][]string
	for _, ref := range w.graph.Refs() {
		row, _ := w.graph.Row(ref)
		column := nb.ColumnPorts
		switch ref.Table {
		case nb.TableAddressSet:
			column = nb.ColumnAddresses
		case nb.TablePortGroup:
		default:
			continue
		}
		var places []string
		for _, value := range w.graph.Elements(nb.Set{Row: ref, Column: column}) {
			if port, ok := w.graph.Row(nb.Ref{Table: nb.TableLogicalSwitchPort, UUID: value}); ok {
				value = port.(*nb.LogicalSwitchPort).Name
			}
			places = append(places, value)
		}
		slices.Sort(places)
		if out == nil {
			out = map[string][]string{}
		}
		words := row.Owned()[nb.KeySelector]
		out[words] = append(out[words], places...)
	}
	return out
}

// guardRows is how many rows the guard has.
func (w *world) guardRows() int {
	n := 0
	for _, ref := range w.graph.Refs() {
		if row, _ := w.graph.Row(ref); strings.HasPrefix(row.Owned()[nb.KeyOwner], "PortGroup/default/") {
			n++
		}
	}
	return n
}

func (w *world) wantGuard(t *testing.T, when string, want map[string]string) {
	t.Helper()
	w.settle()
	got := w.guardOf()
	for words, places := range want {
		if text := strings.Join(got[words], " "); text != places {
			t.Errorf("%s: %s are %q, want %q", when, words, text, places)
		}
	}
}

// The guard is there while there are faces, has a fixed number of rows, and places for infrastructure's pods and for what is said
// otherwise.
func TestFaceGuard(t *testing.T) {
	w := newWorldOf(withFaces("100.64.0.0/10"))
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setNode(node("n1", 1))
	for _, ns := range []string{"plain", "kube-system", "proxy"} {
		w.setNamespace(ns, nil)
		w.setPod(pod(ns, "a", ""))
	}
	w.settle()
	if got := w.guardOf(); got != nil {
		t.Errorf("without faces there is a guard: %v", got)
	}
	red := network("red", "pods", "10.0.0.0/24")
	w.setNetwork(red)
	const ways = "default/pods:router default:node:n1"
	w.wantGuard(t, "a Network with faces", map[string]string{
		"ways": ways, "infrastructure": "default/pods:router kube-system/a", "faces closed": "", "faces open": "", "services": "",
	})
	w.setNamespace("proxy", map[string]string{model.LabelInfrastructure: "true"})
	w.setNamespace("red", map[string]string{model.LabelNetwork: "red", model.LabelInfrastructure: "true"})
	w.setPod(pod("red", "web", ""))
	w.settle()
	w.setService(service("red", "web", "10.96.0.7"))
	s := slice("red", "web-1", "web")
	s.Endpoints = []model.Endpoint{endpoint("red", "web", "100.64.0.1")}
	w.setSlice(s)
	w.wantGuard(t, "a label", map[string]string{
		"infrastructure": "default/pods:router kube-system/a proxy/a", "faces closed": "", "services": "10.96.0.7", "services closed": "",
	})

	red.Ingress = model.InfraIngressNone
	w.setNetwork(red)
	w.wantGuard(t, "None", map[string]string{
		"faces closed": "100.64.0.1", "faces open": "", "services": "10.96.0.7", "services closed": "10.96.0.7",
	})
	red.Ingress = model.InfraIngressAll
	w.setNetwork(red)
	w.wantGuard(t, "All", map[string]string{"faces closed": "", "faces open": "100.64.0.1", "services": "", "services closed": ""})

	// What somebody wrote by hand beside it is told nothing of, and judged as what it leads to.
	red.Ingress = model.InfraIngressInfrastructure
	w.setNetwork(red)
	hand := slice("red", "web-2", "web")
	hand.Endpoints = []model.Endpoint{endpoint("red", "", "192.0.2.1")}
	w.setSlice(hand)
	w.wantGuard(t, "a slice by hand", map[string]string{"faces closed": "", "faces open": "", "services": "10.96.0.7"})

	w.setNamespace("proxy", map[string]string{model.LabelInfrastructure: "yes"})
	w.wantGuard(t, "another value", map[string]string{"infrastructure": "default/pods:router kube-system/a"})
	w.deleteSlice(s.Key)
	w.deleteSlice(hand.Key)
	w.deleteService(model.ServiceKey{Namespace: "red", Name: "web"})
	w.deletePod(model.PodKey{Namespace: "red", Name: "web"})
	rows := w.guardRows()
	for _, name := range []string{"more-0", "more-1"} {
		w.setNetwork(network(name, "pods", "10.0.0.0/24"))
	}
	w.setNode(node("n2", 2))
	w.settle()
	if now := w.guardRows(); now != rows {
		t.Errorf("the guard has %d rows, and %d with two more Networks and another node", rows, now)
	}
	for _, name := range []string{"red", "more-0", "more-1"} {
		w.change(func() { delete(w.networks, name); w.changes.Networks[name] = nil })
	}
	w.settle()
	if got := w.guardOf(); got != nil {
		t.Errorf("after the last Network with faces there is a guard: %v", got)
	}
}
