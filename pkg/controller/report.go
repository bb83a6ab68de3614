package controller

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// reports are what nodes' agents say of them.
type reports struct {
	byNode map[string]*model.NodeReport
	// addresses are those of all nodes that they tell of.
	addresses map[netip.Addr]struct{}
	// nameless are the nodes whose agents do not know the cluster's DNS, sorted.
	nameless []string
}

func newReports() reports {
	return reports{byNode: map[string]*model.NodeReport{}, addresses: map[netip.Addr]struct{}{}}
}

// applyReports takes in what nodes' agents say. Their addresses are compared with Networks', and nothing else: no
// Network loses anything by what a node says.
func (s *State) applyReports(changed map[string]*model.NodeReport) {
	if len(changed) == 0 {
		return
	}
	r := &s.reports
	for node, report := range changed {
		if report == nil {
			delete(r.byNode, node)
		} else {
			r.byNode[node] = report
		}
	}
	addresses, nameless := map[netip.Addr]struct{}{}, []string(nil)
	for _, node := range slices.Sorted(maps.Keys(r.byNode)) {
		report := r.byNode[node]
		for _, a := range slices.Concat(report.Addresses, report.Tunnels) {
			addresses[a] = struct{}{}
		}
		if len(report.DNS) == 0 {
			nameless = append(nameless, node)
		}
	}
	if !maps.Equal(addresses, r.addresses) {
		r.addresses = addresses
		s.unsettled = true
	}
	if !slices.Equal(nameless, r.nameless) {
		r.nameless = nameless
		s.touchAll()
	}
}

// machinesWithin are the first address of a node in a range, and how many there are, with those that nodes tell of.
func (s *State) machinesWithin(cidr netip.Prefix) (first netip.Addr, many int) {
	first, many = s.nodesWithin(cidr)
	for a := range s.reports.addresses {
		if s.isNode(a) || !cidr.Contains(a) {
			continue
		}
		many++
		if !first.IsValid() || a.Less(first) {
			first = a
		}
	}
	return first, many
}
