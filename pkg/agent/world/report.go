package world

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/process/build"
)

// SetReport records what a node's agent says of it.
func (w *World) SetReport(r *model.NodeReport) {
	w.update(func() bool {
		delete(w.unsaid, r.Node)
		return record(w.reports, r.Node, r)
	})
}

// DropReport notes that a report has gone. Kubernetes deletes it along with its Node: then it is kept as long as that.
func (w *World) DropReport(node string) {
	w.update(func() bool {
		until, gone := w.gone[node]
		if !gone || w.reports[node] == nil {
			return forget(w.reports, node)
		}
		w.unsaid[node] = until
		return false
	})
}

// heard returns the reports that count: those of nodes whose Nodes count. Kubernetes deletes a report together with its Node only
// if the report names the Node as its owner, and the node's agent writes that. The lock must be held.
func (w *World) heard() []*model.NodeReport {
	out := make([]*model.NodeReport, 0, len(w.reports))
	for node, r := range w.reports {
		if w.nodes[node] != nil {
			out = append(out, r)
		}
	}
	return out
}

// Report is what this node has to say of itself, and whether that is news: nothing is before it is known what was said before, what the
// node is, and what the AtollConfig says. Without a Node there is none either: Kubernetes would delete it again and again.
func (w *World) Report(addresses []netip.Addr) (r model.NodeReport, news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	self := w.nodes[w.self]
	if self == nil || w.unregistered || w.missing[Reports] || w.missing[Settings] || !w.wired {
		return r, false
	}
	sorted := func(list []netip.Addr) []netip.Addr {
		return slices.Compact(slices.SortedFunc(slices.Values(list), netip.Addr.Compare))
	}
	// As everybody will read it.
	r = *intake.NodeReport(intake.ReportOf(model.NodeReport{
		Node: w.self, NodeUID: self.UID, Version: build.Version(),
		Addresses: sorted(addresses), Tunnels: sorted(w.underlay.Own), DNS: sorted(w.infra.DNS),
	}))
	said := w.reports[w.self]
	return r, said == nil || !reflect.DeepEqual(*said, r)
}
