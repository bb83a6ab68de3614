package inspected

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// Defaults are the settings that worlds are decided by.
var Defaults = decide.Defaults{
	Network: "default", Subnet: netip.MustParsePrefix("10.128.0.0/14"), Gateways: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/16")},
}

// World is a cluster with its databases that fits in a test: all as the controller would have it, until the
// test breaks something.
type World struct {
	T testing.TB
	// Settings are the controller's.
	Settings decide.Defaults
	// Objects are those of the API server, and Statuses what it has of Networks' statuses.
	Objects  model.Changes
	Statuses map[string]kube.Shown
	// Rows are those of the northbound database, Bindings those of the southbound one, and Interfaces those of node n1.
	Rows       Database
	Bindings   map[string]ovsdb.Binding
	Interfaces []vswitch.Port
}

// Database is a northbound database that fits in a test.
type Database map[nb.Ref]nb.Row

func (d Database) Row(ref nb.Ref) (nb.Row, bool) { row, ok := d[ref]; return row, ok }
func (d Database) Has(ref nb.Ref) bool           { _, ok := d[ref]; return ok }

func (d Database) HasMember(m nb.Member) bool {
	row, ok := d[m.Row]
	return ok && slices.Contains(nb.Members(row, m.Column), m.Value)
}

func (d Database) Rows(table nb.Table) []nb.Row {
	var out []nb.Row
	for ref, row := range d {
		if ref.Table == table {
			out = append(out, row)
		}
	}
	return out
}

// Find is the row of a name.
func Find[R nb.Row](w *World, name string) R {
	w.T.Helper()
	for _, row := range w.Rows {
		if r, ok := row.(R); ok && drift.ColumnValue(row, "name").String() == name {
			return r
		}
	}
	w.T.Fatalf("no row is called %s", name)
	panic("unreachable")
}

func (w *World) Delete(row nb.Row) { delete(w.Rows, nb.RefOf(row)) }

// Take implements cluster: it gives everything again, which changes nothing.
func (w *World) Take() model.Changes { return w.Objects }

// Shown implements cluster.
func (w *World) Shown(name, _ string) (kube.Shown, bool) { s, ok := w.Statuses[name]; return s, ok }

// NewWorld has Networks red and blue of the same addresses, with three pods each on nodes n1 and n2.
func NewWorld(t testing.TB) *World {
	t.Helper()
	return WorldOf(t, []string{"red", "blue"}, 3)
}

func WorldOf(t testing.TB, networks []string, pods int) *World {
	t.Helper()
	w := &World{
		T: t, Settings: Defaults, Objects: model.NewChanges(), Statuses: map[string]kube.Shown{}, Rows: Database{},
		Bindings: map[string]ovsdb.Binding{},
	}
	for _, name := range networks {
		w.Objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
		w.Objects.Networks[name] = &model.Network{
			Name: name, UID: "uid-" + name, Generation: 2, Type: model.VPC, Finalized: true, Created: time.Unix(1, 0),
			Subnets: []model.Subnet{
				{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
				{Name: "back", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}},
			},
		}
		for i := range pods {
			w.AddPod(name, fmt.Sprintf("web-%d", i), fmt.Sprintf("n%d", i%2+1))
		}
	}
	for key, list := range drift.Compile(Defaults, w.Objects, w.Rows.Rows).Decided.Attachments {
		w.Objects.Pods[key].Assigned = list
	}
	w.Write(pods)
	return w
}

func (w *World) AddPod(namespace, name, node string) *model.Pod {
	pod := &model.Pod{
		Key: model.PodKey{Namespace: namespace, Name: name}, UID: "uid-" + namespace + "-" + name, Node: node,
		Created: time.Unix(int64(10+len(w.Objects.Pods)), 0),
	}
	w.Objects.Pods[pod.Key] = pod
	return pod
}

// Write brings databases and statuses to what the objects ask for; each Network has that many pods.
func (w *World) Write(pods int) {
	all := drift.Compile(w.Settings, w.Objects, w.Rows.Rows)
	for _, ref := range all.Graph.Refs() {
		row, _ := all.Graph.Row(ref)
		for _, column := range nb.MemberColumns(ref.Table) {
			set := nb.Set{Row: ref, Column: column}
			elements := reflect.ValueOf(all.Graph.Elements(set))
			if set.IsMap() {
				elements = reflect.ValueOf(pairsOf(all.Graph.Elements(set)))
			}
			drift.ColumnValue(row, column).Set(elements)
		}
		w.Rows[ref] = row
	}
	for _, p := range all.Ports() {
		w.Bindings[p.Name] = ovsdb.Binding{Chassis: p.Node, Hostname: p.Node, Up: true}
		if p.Node == "n1" {
			w.Interfaces = append(w.Interfaces, vswitch.Port{
				Name: "atoll-" + p.Pod.Namespace + p.Pod.Name, IfaceID: p.Name, IfaceIDVer: p.UID, Pod: p.Pod.String(),
				Sandbox: "s", Installed: true,
			})
		}
	}
	for name := range w.Objects.Networks {
		w.Statuses[name] = kube.Shown{ObservedGeneration: 2, Phase: model.Ready, Pods: int64(pods)}
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

// Iface is the interface of node n1 with an iface-id.
func (w *World) Iface(id string) *vswitch.Port {
	w.T.Helper()
	i := slices.IndexFunc(w.Interfaces, func(p vswitch.Port) bool { return p.IfaceID == id })
	if i < 0 {
		w.T.Fatalf("no interface has iface-id %s", id)
	}
	return &w.Interfaces[i]
}

func (w *World) All() (model.Changes, error) { return w.Objects, nil }

// ForeignACL hangs an ACL of somebody else on a port group with a port of red's.
func (w *World) ForeignACL(direction, action string, priority int, match string) {
	w.ForeignACLOn("red/web-2", direction, action, priority, match)
}

func (w *World) ForeignACLOn(port, direction, action string, priority int, match string) {
	a := &nb.ACL{UUID: "acl-" + match, Direction: direction, Action: action, Priority: priority, Match: match}
	g := &nb.PortGroup{
		UUID: "group-" + match, Name: "theirs" + match, Ports: []string{Find[*nb.LogicalSwitchPort](w, port).UUID}, ACLs: []string{a.UUID},
	}
	w.Rows[nb.RefOf(a)], w.Rows[nb.RefOf(g)] = a, g
}

func Without(list []string, value string) []string {
	var out []string
	for _, v := range list {
		if v != value {
			out = append(out, v)
		}
	}
	return out
}

// JudgedWorld has policies in red: web-1 receives port 5432 of web-0, logged; all others receive nothing, and web-2 sends
// nothing. web-1 is behind a Service, and one has no endpoints.
func JudgedWorld(t *testing.T) *World {
	t.Helper()
	w := NewWorld(t)
	for i, app := range []string{"web", "db", "mute"} {
		w.Objects.Pods[model.PodKey{Namespace: "red", Name: "web-" + string(rune('0'+i))}].Labels = map[string]string{"app": app}
	}
	of := func(app string) match.Pods {
		return match.Pods{
			Namespace: "red", Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}},
		}
	}
	web := of("web")
	for _, p := range []model.Policy{
		{Subject: match.Pods{Namespace: "red"}, Isolates: [2]bool{true, false}, Key: model.PolicyKey{Name: "deny-all"}},
		{
			Subject: of("db"), Isolates: [2]bool{true, false}, Key: model.PolicyKey{Name: "db-from-web"}, Log: true,
			Rules: [2][]model.Rule{{
				{Verdict: model.Allow, Peers: []model.Peer{{Pods: &web}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5432, Last: 5433}}},
			}},
		},
		{
			Subject: of("db"), Isolates: [2]bool{true, false}, Key: model.PolicyKey{Name: "db-too"},
			Rules: [2][]model.Rule{
				{{Verdict: model.Allow, AnyPeer: true, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5433, Last: 5433}}}},
			},
		},
		{Subject: of("mute"), Isolates: [2]bool{false, true}, Key: model.PolicyKey{Name: "mute"}},
	} {
		p.Key.Kind, p.Key.Namespace, p.Tier, p.UID = model.NetworkPolicy, "red", model.TierTenant, "uid-"+p.Key.Name
		w.Objects.Policies[p.Key] = &p
	}
	cluster := model.Policy{
		Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "no-telnet"}, UID: "uid-no-telnet", Tier: model.TierAdmin, Priority: 10,
		Rules: [2][]model.Rule{1: {{Verdict: model.Deny, AnyPeer: true, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 23, Last: 23}}}}},
	}
	w.Objects.Policies[cluster.Key] = &cluster
	for i, name := range []string{"db", "nobody"} {
		key := model.ServiceKey{Namespace: "red", Name: name}
		w.Objects.Services[key] = &model.Service{
			Key: key, UID: "uid-" + name, Created: time.Unix(1, 0), ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(10 + i)})},
			Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80}},
		}
	}
	slice := model.SliceKey{Namespace: "red", Name: "db-1"}
	w.Objects.Slices[slice] = &model.Slice{
		Key: slice, UID: "uid-slice", Service: "db", Ports: []model.SlicePort{{Protocol: model.TCP, Port: 5432}},
		Endpoints: []model.Endpoint{{
			Address: netip.MustParseAddr("100.64.0.5"), Pod: model.PodKey{Namespace: "red", Name: "web-1"}, PodUID: "uid-red-web-1", Ready: true,
			Serving: true,
		}},
	}
	w.Write(3)
	return w
}
