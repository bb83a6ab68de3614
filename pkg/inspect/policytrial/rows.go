package policytrial

import (
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// compiled are the rows that a controller would have in the northbound database.
func compiled(defaults decide.Defaults, objects model.Changes) *trace.Database {
	g := graph.New()
	decide.NewState(defaults, g, decide.Discard{}).Apply(objects)
	tables := map[nb.Table][]nb.Row{}
	for _, ref := range g.Refs() {
		row, _ := g.Row(ref)
		tables[ref.Table] = append(tables[ref.Table], whole(g, ref, row))
	}
	return trace.New(func(t nb.Table) []nb.Row { return tables[t] })
}

// whole is a row with the elements of its columns that are written one by one, as far as a trace reads them.
func whole(g *graph.Graph, ref nb.Ref, row nb.Row) nb.Row {
	elements := func(column string) []string { return g.Elements(nb.Set{Row: ref, Column: column}) }
	switch row := row.(type) {
	case *nb.LogicalSwitch:
		out := *row
		out.Ports, out.ACLs, out.LoadBalancerGroups = elements("ports"), elements("acls"), elements("load_balancer_group")
		return &out
	case *nb.PortGroup:
		out := *row
		out.Ports, out.ACLs = elements("ports"), elements("acls")
		return &out
	case *nb.AddressSet:
		out := *row
		out.Addresses = elements("addresses")
		return &out
	case *nb.LoadBalancer:
		out := *row
		out.Vips = pairs(elements("vips"))
		return &out
	case *nb.ChassisVariables:
		out := *row
		out.Variables = pairs(elements("variables"))
		return &out
	}
	return row
}

func pairs(elements []string) map[string]string {
	out := make(map[string]string, len(elements))
	for _, pair := range elements {
		key, value := nb.SplitPair(pair)
		out[key] = value
	}
	return out
}
