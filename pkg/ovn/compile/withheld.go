package compile

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Cluster is what of the cluster's settings decides what a Network serves.
type Cluster struct {
	// DefaultSubnet is the CIDR of a Network that lists none.
	DefaultSubnet netip.Prefix
	// Services are the cluster's own ranges of Services, whose addresses pods of every Network dial.
	Services []netip.Prefix
}

// withheld are the parts of a subnet's range that no pod gets an address of: those where the cluster's Services have theirs.
// Of a subnet that lies in such a range as a whole nothing would be left: there, pods get what no Service has.
func (c Cluster) withheld(cidr netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, services := range c.Services {
		if services.Overlaps(cidr) && services.Bits() > cidr.Bits() {
			out = append(out, services.Masked())
		}
	}
	return out
}

// firstFree is the first host address of a range that pods do not need for something else: not one of the Services', where the
// first of each range is the Kubernetes API's. (Kubernetes gives it the first address of the range.)
func (c Cluster) firstFree(cidr netip.Prefix) netip.Addr {
	a := cidr.Addr().Next()
	if cidr.Addr().BitLen()-cidr.Bits() == 1 {
		a = cidr.Addr()
	}
	withheld := c.withheld(cidr)
	for {
		i := slices.IndexFunc(withheld, func(p netip.Prefix) bool { return p.Contains(a) })
		switch {
		case i >= 0:
			a = AddrRangeOf(withheld[i]).Last.Next()
		case slices.ContainsFunc(c.Services, func(p netip.Prefix) bool { return p.Masked().Addr().Next() == a }) && cidr.Contains(a.Next()):
			a = a.Next()
		default:
			return a
		}
	}
}

// Holds reports whether an address lies in a range of one of the Network's subnets.
func (l Layout) Holds(a netip.Addr) bool {
	_, _, holds := l.overlapping(netip.PrefixFrom(a, a.BitLen()))
	return holds
}

// Means reports whether an address means something of the Network's own to its pods, whatever it is elsewhere: it lies in a
// subnet, or where the Network's Services have theirs.
func (l Layout) Means(a netip.Addr) bool {
	return l.Holds(a) || slices.ContainsFunc(l.Services, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Given are the addresses of a range that pods may get one by one.
func (r Range) Given() []model.AddrRange {
	out := slices.Clone(r.Reserved)
	for _, p := range r.Withheld {
		out = append(out, AddrRangeOf(p))
	}
	return out
}
