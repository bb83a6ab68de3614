package ipam

import (
	"cmp"
	"net/netip"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// askedRange is a range that a Network asks for, and what it is.
type askedRange struct {
	cidr netip.Prefix
	what string
}

// askedRanges are those of a Network's subnets, and those of its Services.
func (c *addressCheck) askedRanges(n *model.Network) (subnets, services []askedRange) {
	for _, s := range n.Subnets {
		for _, cidr := range s.CIDRs {
			subnets = append(subnets, askedRange{cidr, "subnet " + s.Name})
		}
	}
	if len(n.Subnets) == 0 {
		// The cluster's default range, as it is served.
		for _, r := range ServedBy(c.Held, n) {
			if cidr, err := netip.ParsePrefix(r.CIDR); err == nil {
				subnets = append(subnets, askedRange{cidr, "subnet " + r.Name})
			}
		}
	}
	for _, cidr := range n.ServiceCIDRs {
		services = append(services, askedRange{cidr, "serviceCIDRs"})
	}
	return subnets, services
}

// checkOverlaps finds ranges that overlap where they must not: in one Network; those of flat Networks, which share one space with
// nodes and the cluster's Services; and what Networks conflict by that are to be compatible. Two vpc Networks may have the same.
func (c *addressCheck) checkOverlaps() {
	const next = "give one of them other addresses: kubectl edit network "
	var flat []*model.Network
	for name, n := range c.Objects.Networks {
		subnets, services := c.askedRanges(n)
		list := slices.Concat(subnets, services)
		for i, a := range list {
			for _, b := range list[i+1:] {
				if a.cidr.Overlaps(b.cidr) {
					c.find(name, api.FindingOverlap, b.cidr.String(), "Network/"+name, next+name, "%s of %s overlaps %s of %s", b.cidr, b.what, a.cidr,
						a.what)
				}
			}
		}
		if n.Type == model.Flat {
			flat = append(flat, n)
		}
		shown, _ := c.Status(name, n.UID)
		for _, peer := range shown.Compatibility {
			if peer.Reason == model.ReasonAddressConflict {
				c.find(name, api.FindingOverlap, peer.Network, "Network/"+name, next+name, "it is not compatible with Network %q as was asked: %s",
					peer.Network, peer.Message)
			}
		}
	}
	slices.SortFunc(flat, func(a, b *model.Network) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	for i, n := range flat {
		subnets, _ := c.askedRanges(n)
		for _, r := range subnets {
			for _, services := range c.Pools.Services {
				if services.Overlaps(r.cidr) {
					c.find(n.Name, api.FindingOverlap, r.cidr.String(), "Network/"+n.Name, next+n.Name,
						"%s of %s overlaps %s, the cluster's own range of Services", r.cidr, r.what, services)
				}
			}
			for _, faces := range c.Pools.Faces {
				if faces.Overlaps(r.cidr) {
					c.find(n.Name, api.FindingOverlap, r.cidr.String(), "Network/"+n.Name, next+n.Name, "%s of %s overlaps %s, the range of faces", r.cidr,
						r.what, faces)
				}
			}
			for name, node := range c.Objects.Nodes {
				for _, a := range node.Addresses {
					if r.cidr.Contains(a) {
						c.find(n.Name, api.FindingOverlap, r.cidr.String(), "Network/"+n.Name, next+n.Name, "%s of %s holds %s, the address of node %s",
							r.cidr, r.what, a, name)
					}
				}
			}
			for _, older := range flat[:i] {
				others, _ := c.askedRanges(older)
				for _, other := range others {
					if other.cidr.Overlaps(r.cidr) {
						c.find(n.Name, api.FindingOverlap, r.cidr.String(), "Network/"+n.Name, next+n.Name,
							"%s of %s overlaps another flat Network's range, and flat Networks share one space", r.cidr, r.what)
					}
				}
			}
		}
	}
}
