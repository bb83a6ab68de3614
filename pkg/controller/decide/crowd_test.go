package decide_test

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// boundOf is how many connections the ports of pods may have; empty for any number.
func (w *world) boundOf() map[string]string {
	out := map[string]string{}
	for _, ref := range w.graph.Refs() {
		if row, _ := w.graph.Row(ref); row.Owned()[nb.KeyOwner][:3] == "Pod" {
			port := row.(*nb.LogicalSwitchPort)
			out[port.Name] = port.Options["ct-zone-limit"]
		}
	}
	return out
}

// All pods are bounded but infrastructure's in the default Network, as soon as their namespace is or is not infrastructure.
func TestPodsHaveBoundedConnections(t *testing.T) {
	settings := withFaces("100.64.0.0/10")
	settings.Connections = 1000
	w := newWorldOf(settings)
	home := network("default", "pods", "10.244.0.0/24")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setNetwork(network("red", "pods", "10.0.0.0/24"))
	w.setNode(node("n1", 1))
	for ns, labels := range map[string]map[string]string{
		"plain": nil, "kube-system": nil, "proxy": nil, "red": {model.LabelNetwork: "red"},
		"red-system": {model.LabelNetwork: "red", model.LabelInfrastructure: "true"},
	} {
		w.setNamespace(ns, labels)
		w.setPod(pod(ns, "a", ""))
	}
	want := func(proxy string) {
		t.Helper()
		w.settle()
		got := w.boundOf()
		for port, bound := range map[string]string{
			"plain/a": "1000", "kube-system/a": "", "proxy/a": proxy, "red/a": "1000", "red-system/a": "1000",
		} {
			if has, there := got[port]; !there || has != bound {
				t.Errorf("%s has the bound %q (there: %t), want %q", port, has, there, bound)
			}
		}
	}
	want("1000")
	w.setNamespace("proxy", map[string]string{model.LabelInfrastructure: "true"})
	want("")
	w.setNamespace("proxy", nil)
	want("1000")
}
