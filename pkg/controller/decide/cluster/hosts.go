package cluster

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TakeNodes takes nodes in; nil ones have gone. Services may have endpoints at their addresses.
func (c *Cluster) TakeNodes(changed map[string]*model.Node) {
	if len(changed) == 0 {
		return
	}
	reporting := false
	for name, node := range changed {
		if !sameNode(c.nodes[name], node) {
			c.NodeChanged.Changed(name)
		}
		reporting = reporting || (c.nodes[name] == nil) != (node == nil) && c.reports[name] != nil
		if node == nil {
			delete(c.nodes, name)
		} else {
			c.nodes[name] = node
		}
	}
	if reporting {
		c.readReports()
	}
	c.noteHosts()
}

// noteHosts compares the nodes' addresses with those of before.
func (c *Cluster) noteHosts() {
	now := map[netip.Addr]struct{}{}
	for _, node := range c.nodes {
		for _, a := range node.Addresses {
			now[a] = struct{}{}
		}
	}
	before := c.hosts
	if maps.Equal(now, before) {
		return
	}
	c.hosts = now
	for _, pair := range [][2]map[netip.Addr]struct{}{{now, before}, {before, now}} {
		for a := range pair[0] {
			if _, still := pair[1][a]; !still {
				c.HostChanged.Changed(a)
			}
		}
	}
	c.AddressesChanged.Changed(struct{}{})
}

// sameNode reports whether a node has the same labels and addresses as before.
func sameNode(a, b *model.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Addresses, b.Addresses)
}

// Node is a node; nil when there is none of that name.
func (c *Cluster) Node(name string) *model.Node { return c.nodes[name] }

// NodeAddresses are those of the nodes that a selector selects, in order.
func (c *Cluster) NodeAddresses(nodes match.Selector) []netip.Addr {
	var out []netip.Addr
	for _, node := range c.nodes {
		if nodes.Matches(node.Labels) {
			out = append(out, node.Addresses...)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// TakeReports takes in what nodes' agents say. Their addresses are compared with Networks', and nothing else: no Network loses
// anything by what a node says.
func (c *Cluster) TakeReports(changed map[string]*model.NodeReport) {
	if len(changed) == 0 {
		return
	}
	for node, report := range changed {
		if report == nil {
			delete(c.reports, node)
		} else {
			c.reports[node] = report
		}
	}
	c.readReports()
}

// readReports notes what the reports say whose Nodes are there. Kubernetes deletes a report along with its Node only if the
// report says that it is the Node's, which the node's agent writes.
func (c *Cluster) readReports() {
	addresses, nameless := map[netip.Addr]struct{}{}, []string(nil)
	for _, node := range slices.Sorted(maps.Keys(c.reports)) {
		report := c.reports[node]
		if c.nodes[node] == nil {
			continue
		}
		for _, a := range slices.Concat(report.Addresses, report.Tunnels) {
			addresses[a] = struct{}{}
		}
		if len(report.DNS) == 0 {
			nameless = append(nameless, node)
		}
	}
	if !maps.Equal(addresses, c.reported) {
		c.reported = addresses
		c.AddressesChanged.Changed(struct{}{})
	}
	if !slices.Equal(nameless, c.nameless) {
		c.nameless = nameless
		c.NamelessChanged.Changed(struct{}{})
	}
}

// Nameless are the nodes whose agents do not know the cluster's DNS, sorted. The caller does not change them.
func (c *Cluster) Nameless() []string { return c.nameless }

// IsNode reports whether an address is a node's.
func (c *Cluster) IsNode(a netip.Addr) bool {
	_, yes := c.hosts[a]
	return yes
}

// HostsWithin are the addresses of nodes in any of some ranges, in order.
func (c *Cluster) HostsWithin(ranges []netip.Prefix) (out []netip.Addr) {
	if len(ranges) == 0 {
		return nil
	}
	for a := range c.hosts {
		if slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) }) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// NodesWithin are the first address of a node in a range, and how many there are.
func (c *Cluster) NodesWithin(cidr netip.Prefix) (first netip.Addr, many int) {
	for a := range c.hosts {
		first, many = within(cidr, a, first, many)
	}
	return first, many
}

// MachinesWithin is the same with the addresses that nodes tell of.
func (c *Cluster) MachinesWithin(cidr netip.Prefix) (first netip.Addr, many int) {
	first, many = c.NodesWithin(cidr)
	for a := range c.reported {
		if !c.IsNode(a) {
			first, many = within(cidr, a, first, many)
		}
	}
	return first, many
}

// within counts an address if it is in a range.
func within(cidr netip.Prefix, a, first netip.Addr, many int) (netip.Addr, int) {
	if !cidr.Contains(a) {
		return first, many
	}
	if !first.IsValid() || a.Less(first) {
		first = a
	}
	return first, many + 1
}
