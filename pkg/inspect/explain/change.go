package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// lagging says who has not followed the northbound database, as far as changes are numbered (ovn-nb(5): nb_cfg). Its zero value
// knows of nobody.
type lagging struct {
	// northd: ovn-northd has not brought the change with the highest number into the southbound database.
	northd bool
	// nodes have not applied what is there.
	nodes map[string]bool
	// called are the names of chassis that are not those of their nodes, by node.
	called map[string]string
}

// laggingOf asks both databases. What is not told is not known, and nothing is said of it.
func laggingOf(ctx context.Context, s snapshot.Sources) (out lagging) {
	if s.Northbound == nil || s.Southbound == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, snapshot.DatabaseTime)
	defer cancel()
	return readLagging(ctx, s.Northbound, s.Southbound)
}

func readLagging(ctx context.Context, northbound, southbound snapshot.Selector) (out lagging) {
	north, err := northbound.Select(ctx, ovn.SelectRows(nb.TableGlobal.String(), []string{"nb_cfg"}))
	if err != nil {
		return out
	}
	south, err := southbound.Select(ctx,
		ovn.SelectRows("SB_Global", []string{"nb_cfg"}), ovn.SelectRows(snapshot.TableChassis, []string{"name", "hostname"}),
		ovn.SelectRows("Chassis_Private", []string{"name", "nb_cfg"}))
	if err != nil || len(north[0]) == 0 || len(south[0]) == 0 {
		return out
	}
	reached := ovn.Number(south[0][0], "nb_cfg")
	out.northd, out.nodes, out.called = reached < ovn.Number(north[0][0], "nb_cfg"), map[string]bool{}, map[string]string{}
	node := map[string]string{}
	for _, row := range south[1] {
		name, host := ovn.Text(row, "name"), ovn.Text(row, "hostname")
		if node[name] = host; name != host {
			out.called[host] = name
		}
	}
	for _, row := range south[2] {
		if name := node[ovn.Text(row, "name")]; name != "" && ovn.Number(row, "nb_cfg") < reached {
			out.nodes[name] = true
		}
	}
	return out
}

// moved reports whether rows of whom the ways have met have changed a moment ago.
func (e *explainer) moved() bool {
	if e.lately == nil {
		return false
	}
	concerned := func(ref nb.Ref) (concerns, there bool) {
		row, there := e.rows.Row(ref)
		if !there {
			return false, false
		}
		owner, known := nb.ParseOwner(row.Owned()[nb.KeyOwner])
		return known && e.concerns(owner), true
	}
	changed := e.lately()
	for ref := range changed.Rows {
		if is, _ := concerned(ref); is {
			return true
		}
	}
	for m := range changed.Members {
		// An element belongs to whose row it is, and one that is gone to whom it has left.
		is, there := false, false
		if !m.IsValue() {
			is, there = concerned(m.Ref())
		}
		if !there {
			is, _ = concerned(m.Row)
		}
		if is {
			return true
		}
	}
	return false
}

// changing says why an explanation may be another one in a moment.
func (e *explainer) changing(answer Explanation, moved bool) (out []string) {
	if len(answer.Drift) > 0 {
		out = append(out, "the rows are not yet what the objects ask for")
	}
	if moved {
		out = append(out,
			fmt.Sprintf("rows of this way have changed within the last %d seconds, which nodes may not have applied",
				int(snapshot.SettleTime.Seconds())))
	}
	if e.lagging.northd {
		out = append(out, "ovn-northd has not yet brought the last change into the southbound database")
	}
	var nodes []string
	for _, w := range answer.Ways {
		for _, h := range slices.Concat(w.There, w.Back) {
			if e.lagging.nodes[h.Node] && !slices.Contains(nodes, h.Node) {
				nodes = append(nodes, h.Node)
			}
		}
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		out = append(out, fmt.Sprintf("node %s has not yet applied the rows of the last change", n))
	}
	return out
}

// Unsettled is one line of why an explanation may be another one in a moment; empty when nothing is known to change.
func (e Explanation) Unsettled() string {
	if len(e.Changing) == 0 {
		return ""
	}
	return "Changing: " + strings.Join(e.Changing, "; ") + ". Ask again in a moment"
}
