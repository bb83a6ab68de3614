package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

var defaults = decide.Defaults{Network: "default", Subnet: netip.MustParsePrefix("10.128.0.0/14"), Gateways: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/16")}}

// world is a cluster with its databases that fits in a test: all as the controller would have it, until the
// test breaks something.
type world struct {
	t testing.TB
	// settings are the controller's.
	settings   decide.Defaults
	objects    model.Changes
	shown      map[string]kube.Shown
	rows       database
	bindings   map[string]ovsdb.Binding
	interfaces []vswitch.Port
}

// database is a northbound database that fits in a test.
type database map[nb.Ref]nb.Row

func (d database) Row(ref nb.Ref) (nb.Row, bool) { row, ok := d[ref]; return row, ok }
func (d database) Has(ref nb.Ref) bool           { _, ok := d[ref]; return ok }

func (d database) HasMember(m nb.Member) bool {
	row, ok := d[m.Row]
	return ok && slices.Contains(nb.Members(row, m.Column), m.Value)
}

func (d database) Rows(table nb.Table) []nb.Row {
	var out []nb.Row
	for ref, row := range d {
		if ref.Table == table {
			out = append(out, row)
		}
	}
	return out
}

// find is the row of a name.
func find[R nb.Row](w *world, name string) R {
	w.t.Helper()
	for _, row := range w.rows {
		if r, ok := row.(R); ok && columnValue(row, "name").String() == name {
			return r
		}
	}
	w.t.Fatalf("no row is called %s", name)
	panic("unreachable")
}

func (w *world) delete(row nb.Row) { delete(w.rows, nb.RefOf(row)) }

// Take implements cluster: it gives everything again, which changes nothing.
func (w *world) Take() model.Changes { return w.objects }

// Shown implements cluster.
func (w *world) Shown(name, _ string) (kube.Shown, bool) { s, ok := w.shown[name]; return s, ok }

// newWorld has Networks red and blue of the same addresses, with three pods each on nodes n1 and n2.
func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOf(t, []string{"red", "blue"}, 3)
}

func worldOf(t testing.TB, networks []string, pods int) *world {
	t.Helper()
	w := &world{t: t, settings: defaults, objects: model.NewChanges(), shown: map[string]kube.Shown{}, rows: database{}, bindings: map[string]ovsdb.Binding{}}
	for _, name := range networks {
		w.objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
		w.objects.Networks[name] = &model.Network{
			Name: name, UID: "uid-" + name, Generation: 2, Type: model.VPC, Finalized: true, Created: time.Unix(1, 0),
			Subnets: []model.Subnet{
				{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
				{Name: "back", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}},
			},
		}
		for i := range pods {
			w.addPod(name, fmt.Sprintf("web-%d", i), fmt.Sprintf("n%d", i%2+1))
		}
	}
	for key, list := range compileAll(defaults, w.objects, w.rows.Rows).decided.attachments {
		w.objects.Pods[key].Assigned = list
	}
	w.write(pods)
	return w
}

func (w *world) addPod(namespace, name, node string) *model.Pod {
	pod := &model.Pod{
		Key: model.PodKey{Namespace: namespace, Name: name}, UID: "uid-" + namespace + "-" + name, Node: node,
		Created: time.Unix(int64(10+len(w.objects.Pods)), 0),
	}
	w.objects.Pods[pod.Key] = pod
	return pod
}

// write brings databases and statuses to what the objects ask for; each Network has that many pods.
func (w *world) write(pods int) {
	all := compileAll(w.settings, w.objects, w.rows.Rows)
	for _, ref := range all.graph.Refs() {
		row, _ := all.graph.Row(ref)
		for _, column := range nb.MemberColumns(ref.Table) {
			set := nb.Set{Row: ref, Column: column}
			elements := reflect.ValueOf(all.graph.Elements(set))
			if set.IsMap() {
				elements = reflect.ValueOf(pairsOf(all.graph.Elements(set)))
			}
			columnValue(row, column).Set(elements)
		}
		w.rows[ref] = row
	}
	for _, p := range all.ports() {
		w.bindings[p.name] = ovsdb.Binding{Chassis: p.node, Hostname: p.node, Up: true}
		if p.node == "n1" {
			w.interfaces = append(w.interfaces, vswitch.Port{
				Name: "atoll-" + p.pod.Namespace + p.pod.Name, IfaceID: p.name, IfaceIDVer: p.uid, Pod: p.pod.String(),
				Sandbox: "s", Installed: true,
			})
		}
	}
	for name := range w.objects.Networks {
		w.shown[name] = kube.Shown{ObservedGeneration: 2, Phase: model.Ready, Pods: int64(pods)}
	}
}

func pairsOf(elements []string) map[string]string {
	pairs := map[string]string{}
	for _, e := range elements {
		key, value := nb.SplitPair(e)
		pairs[key] = value
	}
	return pairs
}

func (w *world) look() Report {
	w.t.Helper()
	s := &sources{
		defaults: defaults, cluster: w, objects: model.NewChanges(), node: "n1",
		northbound: func() (northbound, error) { return w.rows, nil },
		bindings:   func(context.Context) (map[string]ovsdb.Binding, error) { return w.bindings, nil },
		interfaces: func(context.Context) ([]vswitch.Port, error) { return w.interfaces, nil },
	}
	report, err := s.look(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// iface is the interface of node n1 with an iface-id.
func (w *world) iface(id string) *vswitch.Port {
	w.t.Helper()
	i := slices.IndexFunc(w.interfaces, func(p vswitch.Port) bool { return p.IfaceID == id })
	if i < 0 {
		w.t.Fatalf("no interface has iface-id %s", id)
	}
	return &w.interfaces[i]
}
