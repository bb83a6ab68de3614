package decide

import (
	"cmp"
	"slices"
)

// maxRanges bounds how many ranges of subnets metrics tell of, the fullest ones: there may be tens of thousands.
const maxRanges = 1000

// Capacity is what is left, and who did not get any.
type Capacity struct {
	Ranges []RangeCapacity
	Nodes  []NodeCapacity
	// Refused counts pods without a port, by the reason.
	Refused map[string]int
	// Joined is how many Networks the largest set has that mode Routed joins.
	Joined int
}

// RangeCapacity counts the addresses of one range of a subnet.
type RangeCapacity struct {
	Network, Subnet, CIDR string
	Used, Free            int64
}

// NodeCapacity counts the faces of a node of one range.
type NodeCapacity struct {
	Node, CIDR string
	Used, Free int64
}

// Capacity counts what is left.
func (s *State) Capacity() Capacity {
	c := Capacity{Refused: s.pods.Refusals()}
	for _, name := range s.networks.Names() {
		c.Joined = max(c.Joined, s.networks.JoinedInAll(name))
		for _, subnet := range s.networks.Get(name).Layout.Subnets {
			for _, pool := range s.subnets.Pools(name, subnet.Name) {
				c.Ranges = append(c.Ranges, RangeCapacity{name, subnet.Name, pool.Prefix().String(), pool.Used(), pool.Free()})
			}
		}
	}
	slices.SortFunc(c.Ranges, func(a, b RangeCapacity) int {
		return cmp.Or(cmp.Compare(a.Free, b.Free), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Subnet, b.Subnet),
			cmp.Compare(a.CIDR, b.CIDR))
	})
	c.Ranges = c.Ranges[:min(len(c.Ranges), maxRanges)]
	for _, node := range s.faces.Nodes() {
		for _, pool := range s.faces.Pools(node) {
			c.Nodes = append(c.Nodes, NodeCapacity{node, pool.Prefix().String(), pool.Used(), pool.Free()})
		}
	}
	return c
}
