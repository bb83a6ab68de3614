package decide_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// mirrored are the mirrors of a Service as they were last wanted: Network, slice and addresses.
func (w *world) mirrored(ns, name string) []string {
	w.settle()
	var out []string
	for _, m := range w.mirrors[model.ServiceKey{Namespace: ns, Name: name}] {
		line := fmt.Sprintf("%s %s/%s (%s):", m.Network, m.Source.Namespace, m.Source.Name, m.SourceUID)
		for _, e := range m.Endpoints {
			line += " " + e.Address.String()
		}
		out = append(out, line)
	}
	return out
}

func (w *world) wantMirrors(t *testing.T, ns, name string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.mirrored(ns, name)); diff != "" {
		t.Errorf("mirrors of %s/%s (-want +got):\n%s", ns, name, diff)
	}
}

func TestMirrorsFollowPods(t *testing.T) {
	w, p, s := servedWorld(t)
	const own = "red r/web-1 (uid-r-web-1): 10.0.0.2"
	w.wantMirrors(t, "r", "web", own)
	// The Service itself need not have a virtual address, nor be known.
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	w.wantMirrors(t, "r", "web", own)
	// A pod in the default Network is in Kubernetes' slice with its own address.
	other := pod("r", "q", "default")
	w.setPod(other)
	s.Endpoints = append(s.Endpoints, endpoint("r", "q", "10.128.0.9"))
	w.setSlice(s)
	w.wantMirrors(t, "r", "web", own)
	// A pod that lost its port is nowhere, and comes back.
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	w.deletePod(p.Key)
	w.wantMirrors(t, "r", "web")
	again := p
	again.UID += "-again"
	w.setPod(again)
	if got := w.mirrored("r", "web"); len(got) != 1 {
		t.Errorf("a pod of the same name is not mirrored: %v", got)
	}
	// One that is known by another UID is another pod.
	s.Endpoints[0].PodUID = p.UID
	w.setSlice(s)
	w.wantMirrors(t, "r", "web")
	w.deleteSlice(s.Key)
	w.wantMirrors(t, "r", "web")
}

// TestMirrorsOfAddresses: an address that is no pod's belongs to the namespace's own Network.
func TestMirrorsOfAddresses(t *testing.T) {
	w, _, _ := servedWorld(t)
	s := slice("r", "by-hand", "outside")
	s.Endpoints = []model.Endpoint{endpoint("r", "", "10.0.0.77")}
	w.setSlice(s)
	w.wantMirrors(t, "r", "outside", "red r/by-hand (uid-r-by-hand): 10.0.0.77")
	// It follows the namespace.
	w.setNamespace("r", nil)
	w.wantMirrors(t, "r", "outside")
	flat := slice("a", "by-hand", "outside")
	flat.Endpoints = s.Endpoints
	w.setSlice(flat)
	w.wantMirrors(t, "a", "outside")
}
