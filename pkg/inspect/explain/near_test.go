package explain

import (
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/test/inspected"
)

// TestExplainNearEndpoints: who dials a Service whose clients reach those of their own node or zone is told which, and why; and
// where none is near, where they are.
func TestExplainNearEndpoints(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	for i, name := range []string{"n1", "n2"} {
		w.Objects.Nodes[name].Labels = map[string]string{model.LabelZone: []string{"a", "b"}[i]}
	}
	pod := func(name string) *model.Pod { return w.Objects.Pods[model.PodKey{Namespace: "red", Name: name}] }
	ports := []model.ServicePort{{Name: "web", Protocol: model.TCP, Port: 80}}
	// web is on n1, db on n2, and so are friend and locked.
	each, far, zone := w.Serve("red", "each", 20, ports, pod("web"), pod("db")), w.Serve("red", "far", 21, ports, pod("db")), w.Serve("red",
		"zone", 22, ports, pod("web"), pod("db"))
	each.Local, far.Local, zone.Prefers = true, true, model.PrefersZone
	for _, s := range w.Objects.Slices {
		for i, e := range s.Endpoints {
			if s.Service == "zone" {
				s.Endpoints[i].ForZones = []string{map[string]string{"n1": "a", "n2": "b"}[e.Node]}
			}
		}
	}
	w.Settle()
	for _, test := range []struct {
		ask        string
		want, none string
	}{
		{"red/friend svc/red/each tcp 80", "for clients on node n1: internalTrafficPolicy is Local", w.OwnOf("red", "db").String() + ":"},
		{"red/friend svc/red/each tcp 80", "to OWN red/web:8080, its only endpoint", ""},
		{"red/db svc/red/each tcp 80", "led back to pod red/db itself", w.OwnOf("red", "web").String() + ":"},
		{
			"red/friend svc/red/far tcp 80",
			"internalTrafficPolicy of Service red/far is Local, and none of its endpoints is on node n1: it has some on n2", "leads",
		},
		{"red/friend svc/red/zone tcp 80", "for clients on node n1, by the hints of its EndpointSlices", w.OwnOf("red", "db").String() + ":"},
		{"blue/client svc/red/each tcp 80", "for clients on node n1: internalTrafficPolicy is Local", w.FaceOf("red", "db").String()},
		{"blue/client svc/red/far tcp 80", "none of its endpoints is on node n1", "leads"},
		{"kube-system/operator svc/red/each tcp 80", "FACE red/web:8080, its only endpoint", w.FaceOf("red", "db").String()},
		{"node/n1 svc/red/each tcp 80", "FACE red/web:8080, endpoint 1 of 1", w.FaceOf("red", "db").String()},
		{
			"node/n1 svc/red/far tcp 80",
			"kube-proxy has no ready endpoint of Service red/far for tcp port 80 on node n1: its internalTrafficPolicy is Local", "leads",
		},
		// The control: a Service that asks for nothing leads to any node.
		{"red/friend svc/red/db tcp 80", "OWN red/db:8080, its only endpoint", "clients on node"},
	} {
		got, err := explainIn(w, test.ask)
		if err != nil {
			t.Errorf("%s: %v", test.ask, err)
			continue
		}
		text, want := said(got), test.want
		for _, name := range []string{"web", "db"} {
			want = strings.ReplaceAll(want, "OWN red/"+name, w.OwnOf("red", name).String())
			want = strings.ReplaceAll(want, "FACE red/"+name, w.FaceOf("red", name).String())
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in:\n%s", test.ask, want, text)
		}
		if test.none != "" && strings.Contains(text, test.none) {
			t.Errorf("%s: %q in:\n%s", test.ask, test.none, text)
		}
		if len(got.Drift) > 0 {
			t.Errorf("%s: drift where all is as it should be: %+v", test.ask, got.Drift[0])
		}
	}
}

// TestExplainNearEndpointsOfAnotherChassis: a node whose chassis has another name has no variables, so that such a Service leads
// nobody on it anywhere. Controls: a plain Service, and a node whose chassis has its name.
func TestExplainNearEndpointsOfAnotherChassis(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	web := w.Objects.Pods[model.PodKey{Namespace: "red", Name: "web"}]
	ports := []model.ServicePort{{Name: "web", Protocol: model.TCP, Port: 80}}
	w.Serve("red", "each", 20, ports, web).Local = true
	w.Serve("red", "plain", 21, ports, web)
	w.Settle()
	named := followed(7, 7, 7, 7)
	named[snapshot.TableChassis] = []ovsdb.Row{{"name": "n1", "hostname": "n1"}, {"name": "n2", "hostname": "n2"}}
	for _, test := range []struct {
		service string
		chassis numbers
		reached bool
	}{
		{"each", followed(7, 7, 7, 7), false},
		{"plain", followed(7, 7, 7, 7), true},
		{"each", named, true},
	} {
		q, err := questionOf("red/friend svc/red/" + test.service + " tcp 80")
		if err != nil {
			t.Fatal(err)
		}
		in := explainable(w)
		in.lagging = readLagging(t.Context(), test.chassis, test.chassis)
		e, err := Explain(in, q)
		if err != nil {
			t.Fatal(err)
		}
		if e.Reached != test.reached || !e.Reached && !strings.Contains(e.Verdict(), "OVN knows node n1 as chassis c1") {
			t.Errorf("%s: %s", test.service, e.Verdict())
		}
	}
}
