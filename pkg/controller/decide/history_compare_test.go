package decide_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// outcome is what a controller has brought about besides rows, of the objects that are there.
type outcome struct {
	// Statuses and Views are of Networks, the next ones of objects of Gateway API.
	Statuses map[string]model.NetworkStatus
	Views    map[model.ViewKey]model.View
	Gateways map[model.GatewayKey]model.GatewayStatus
	Routes   map[model.RouteKey]model.RouteStatus
	// Pods, Nodes and Services are what is written on them.
	Pods     map[model.PodKey][]model.Attachment
	Nodes    map[string]*model.NodeNetwork
	Services map[model.ServiceKey]*model.ServiceAddresses
	Mirrors  map[model.ServiceKey][]model.Mirror
	Tenants  map[string]model.TenantStatus
	Roles    map[string]model.TenantRole
	// Free is what is left of each pool, and Refused who did not get any.
	Free decide.Capacity
}

func (w *world) outcome() outcome {
	o := outcome{
		Statuses: map[string]model.NetworkStatus{}, Views: w.views,
		Gateways: map[model.GatewayKey]model.GatewayStatus{}, Routes: map[model.RouteKey]model.RouteStatus{},
		Pods: map[model.PodKey][]model.Attachment{}, Nodes: map[string]*model.NodeNetwork{},
		Services: map[model.ServiceKey]*model.ServiceAddresses{},
		Mirrors:  map[model.ServiceKey][]model.Mirror{}, Free: w.state.Capacity(),
		Tenants: w.tenantStatuses(), Roles: w.tenants.roles,
	}
	slices.SortFunc(o.Free.Nodes, func(a, b decide.NodeCapacity) int { return cmp.Compare(a.Node, b.Node) })
	for name := range w.networks {
		o.Statuses[name] = w.statuses[name]
	}
	for key, g := range w.gateways {
		// Of another's class nothing is said.
		if w.classes[g.Class] != nil {
			o.Gateways[key] = w.shown.gateways[key]
		}
	}
	for key := range w.routes {
		o.Routes[key] = w.shown.routes[key]
	}
	for key, p := range w.pods {
		o.Pods[key] = p.Assigned
	}
	for name, n := range w.nodes {
		o.Nodes[name] = n.Assigned
	}
	for key, s := range w.services {
		o.Services[key] = s.Assigned
	}
	for key, m := range w.mirrors {
		// One without mirrors, and one of which nothing was ever said, are the same.
		if len(m) > 0 {
			o.Mirrors[key] = m
		}
	}
	return o
}

// same fails when two controllers have brought different things about, or when one knows of something wrong that the other has
// never told its owner.
func same(t *rapid.T, how string, a *world, what string, b *world) {
	opts := gocmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}
	one, other := a.outcome(), b.outcome()
	var rows []string
	if !sameRows(a.graph, b.graph) {
		has, wants := refs(a.graph), refs(b.graph)
		rows = append(without("-", has, wants), without("+", wants, has)...)
	}
	// Most are the same in all, which reflect sees sooner.
	if len(rows) > 0 || !reflect.DeepEqual(one, other) && !gocmp.Equal(one, other, opts) {
		t.Fatalf("%s (-) and %s (+) differ:\n%s\n%s\nof this cluster:\n%s", how, what, strings.Join(rows, "\n"), gocmp.Diff(one, other, opts),
			a.objects())
	}
	for _, about := range slices.Sorted(maps.Keys(b.eventsBy)) {
		for _, p := range b.eventsBy[about] {
			told := func(has model.Problem) bool {
				// How many pods keep a subnet changes with each that goes; its Network's owner is told once.
				return has == p || has.Reason == p.Reason && p.Reason == model.ReasonSubnetInUse
			}
			if !slices.ContainsFunc(a.eventsBy[about], told) {
				t.Fatalf("%s: nobody has told %s what %s tells: %+v; it was told %+v", how, about, what, p, a.eventsBy[about])
			}
		}
	}
}

// sameWords fails when owners hear anything more often, or less, since everything comes twice.
func sameWords(t *rapid.T, once, twice *world) {
	words := func(w *world) map[string][]string {
		out := map[string][]string{}
		for about, problems := range w.eventsBy {
			for _, p := range problems {
				out[about] = append(out[about], p.Reason+": "+p.Message)
			}
			slices.Sort(out[about])
		}
		return out
	}
	if diff := gocmp.Diff(words(once), words(twice)); diff != "" {
		t.Fatalf("Events of once (-) and of everything twice (+) differ:\n%s\nof this cluster:\n%s", diff, once.objects())
	}
}

// objects are those that decide most, for people to read.
func (c *cluster) objects() string {
	var out []string
	for name, labels := range c.namespaces {
		out = append(out, fmt.Sprintf("Namespace %s %v", name, labels))
	}
	for name, n := range c.networks {
		out = append(out, fmt.Sprintf("Network %s %+v", name, *n))
	}
	for name, t := range c.tenants.objects {
		out = append(out, fmt.Sprintf("Tenant %s %+v", name, *t))
	}
	for name, n := range c.nodes {
		out = append(out, fmt.Sprintf("Node %s %s of %v: %+v", name, n.UID, n.Created.Unix(), n.Assigned))
	}
	for key, p := range c.pods {
		out = append(out,
			fmt.Sprintf("Pod %s %s of %v on %s, asks %q %v %q: %+v", key, p.UID, p.Created.Unix(), p.Node, p.Network, p.NIC.IP, p.Unwritable,
				p.Assigned))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// without are those lines of a that b does not have, each after a mark.
func without(mark string, a, b []string) []string {
	var out []string
	for _, line := range a {
		if _, has := slices.BinarySearch(b, line); !has {
			out = append(out, mark+" "+line)
		}
	}
	return out
}

// sameRows reports whether two graphs want the same rows and elements.
func sameRows(a, b *graph.Graph) bool {
	refs := a.Refs()
	if len(refs) != len(b.Refs()) {
		return false
	}
	for _, r := range refs {
		one, _ := a.Row(r)
		other, has := b.Row(r)
		if !has || !reflect.DeepEqual(one, other) {
			return false
		}
		for _, column := range nb.MemberColumns(r.Table) {
			set := nb.Set{Row: r, Column: column}
			has, wants := a.Elements(set), b.Elements(set)
			slices.Sort(has)
			slices.Sort(wants)
			if !slices.Equal(has, wants) {
				return false
			}
		}
	}
	return true
}

// refs are all rows and elements that are wanted.
func refs(g *graph.Graph) []string {
	var out []string
	for _, r := range g.Refs() {
		row, _ := g.Row(r)
		text, err := json.Marshal(row)
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%s %s", r.Table, text))
		for _, column := range nb.MemberColumns(r.Table) {
			elements := g.Elements(nb.Set{Row: r, Column: column})
			slices.Sort(elements)
			out = append(out, fmt.Sprintf("%s %s %s %q", r.Table, r.UUID, column, elements))
		}
	}
	slices.Sort(out)
	return out
}
