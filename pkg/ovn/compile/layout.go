package compile

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"

	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// DefaultSubnetName names the subnet of a Network that lists none.
const DefaultSubnetName = "default"

// minBits4 is the shortest IPv4 prefix of a subnet: more than the whole of 10.0.0.0/8 is a mistake.
const minBits4 = 8

// Layout is what a Network serves.
type Layout struct {
	Name    string
	UID     string
	Subnets []SubnetLayout
	// Services are the ranges of which its Services have addresses, as far as the Network alone tells.
	Services []netip.Prefix
	// Faces: its pods have them. Not so in the default Network.
	Faces bool
	// Home is the default Network, on whose router the subnets of another flat Network hang; nil for a Network with a router of its
	// own.
	Home *Home
	// Through are addresses within the subnets that lead to the porthole all the same: there somebody answers whom pods of
	// every Network ask.
	Through []netip.Addr
	// Virtual are the addresses that mean something there only while a load balancer leads from them.
	Virtual Virtual
	// Joined: its router is joined to others'.
	Joined bool
	// Unnumbered are the UUIDs of its switches and routers that ask for no number, since others have theirs.
	Unnumbered []string
	// offered: it stands for what others know of a Network, see Offered.
	offered bool
}

// Home is the default Network.
type Home struct{ Name, UID string }

// router is the Network whose router and load balancers a Network's subnets have.
func (l Layout) router() Home {
	if l.Home != nil {
		return *l.Home
	}
	return Home{l.Name, l.UID}
}

// SubnetLayout is a subnet that makes sense.
type SubnetLayout struct {
	Name   string
	Ranges []Range
	// Former: the Network does not list it any more, and its status says that it is served. It goes with its last pod.
	Former bool
}

// Range is a subnet's CIDR of one IP family.
type Range struct {
	CIDR    netip.Prefix
	Gateway netip.Addr
	// Reserved: what pods never get; the gateway among them.
	Reserved []model.AddrRange
	// Withheld are parts that pods do not get because the cluster's Services have their addresses there.
	Withheld []netip.Prefix
}

// Subnet finds a subnet by name.
func (l Layout) Subnet(name string) (SubnetLayout, bool) {
	i := slices.IndexFunc(l.Subnets, func(s SubnetLayout) bool { return s.Name == name })
	if i < 0 {
		return SubnetLayout{}, false
	}
	return l.Subnets[i], true
}

// portKey is the number that a port of a subnet's switch asks for: that of its first address, of IPv4 if the subnet has that.
// Empty when it has none of a range that is served.
func (s SubnetLayout) portKey(addresses ...netip.Addr) string {
	for _, v4 := range [2]bool{true, false} {
		for _, r := range s.Ranges {
			if i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == v4 && r.CIDR.Contains(a) }); i >= 0 {
				return strconv.Itoa(model.PortNumber(r.CIDR, addresses[i]))
			}
		}
	}
	return ""
}

// Listed are the subnets that the Network lists.
func (l Layout) Listed() []SubnetLayout {
	former := func(s SubnetLayout) bool { return s.Former }
	if !slices.ContainsFunc(l.Subnets, former) {
		return slices.Clip(l.Subnets)
	}
	return slices.DeleteFunc(slices.Clone(l.Subnets), former)
}

// Ranges are those of all subnets, by the names of these.
func (l Layout) Ranges() iter.Seq2[string, Range] {
	return func(yield func(string, Range) bool) {
		for _, s := range l.Subnets {
			for _, r := range s.Ranges {
				if !yield(s.Name, r) {
					return
				}
			}
		}
	}
}

// Taken are the addresses of its subnets.
func (l Layout) Taken() []model.AddrRange {
	var out []model.AddrRange
	for _, r := range l.Ranges() {
		out = append(out, AddrRangeOf(r.CIDR))
	}
	return out
}

// Plan decides what of a Network can be served. A subnet that contradicts itself, or overlaps one listed
// before it, is left out and there is a Problem that names it; the others are served. A Network that lists no
// subnet gets the cluster's default one. A subnet that it does not list any more comes last, as it was served, unless one that is
// listed overlaps it.
func Plan(n model.Network, c Cluster) (Layout, []model.Problem) {
	layout := Layout{Name: n.Name, UID: n.UID}
	subnets := n.Subnets
	if len(subnets) == 0 {
		subnets = []model.Subnet{{Name: DefaultSubnetName, CIDRs: []netip.Prefix{c.DefaultSubnet}}}
	}
	var problems []model.Problem
	for _, s := range subnets {
		if s.Waits {
			continue
		}
		planned, problem := c.planSubnet(s, layout.Subnets)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		layout.Subnets = append(layout.Subnets, planned)
	}
	layout.Subnets = append(layout.Subnets, c.former(n.Served, subnets, layout.Subnets)...)
	layout.Services, _ = layout.planServices(n)
	return layout, problems
}

// former are the subnets that are served and not listed.
func (c Cluster) former(served []model.ServedRange, listed []model.Subnet, before []SubnetLayout) []SubnetLayout {
	var out []SubnetLayout
	for _, r := range served {
		if slices.ContainsFunc(listed, func(s model.Subnet) bool { return s.Name == r.Subnet }) ||
			slices.ContainsFunc(out, func(s SubnetLayout) bool { return s.Name == r.Subnet }) {
			continue
		}
		subnet := model.Subnet{Name: r.Subnet}
		for _, other := range served {
			if other.Subnet == r.Subnet {
				subnet.CIDRs = append(subnet.CIDRs, other.CIDR)
				subnet.Gateways = append(subnet.Gateways, other.Gateway)
			}
		}
		if planned, problem := c.planSubnet(subnet, slices.Concat(before, out)); problem == nil {
			planned.Former = true
			out = append(out, planned)
		}
	}
	return out
}

func (c Cluster) planSubnet(s model.Subnet, before []SubnetLayout) (SubnetLayout, *model.Problem) {
	invalid := func(format string, args ...any) (SubnetLayout, *model.Problem) {
		return SubnetLayout{}, &model.Problem{
			Reason:  model.ReasonSubnetInvalid,
			Message: fmt.Sprintf("subnet %q is not served: ", s.Name) + fmt.Sprintf(format, args...),
		}
	}
	if s.Error != "" {
		return invalid("%s", s.Error)
	}
	if len(s.CIDRs) == 0 {
		return invalid("it has no CIDR")
	}
	out := SubnetLayout{Name: s.Name}
	for _, cidr := range s.CIDRs {
		if why := unusable(cidr); why != "" {
			return invalid("%s %s", cidr, why)
		}
		for _, r := range out.Ranges {
			if r.CIDR.Addr().Is4() == cidr.Addr().Is4() {
				return invalid("%s and %s are of the same IP family; make a second subnet", r.CIDR, cidr)
			}
		}
		gateway, why := c.gatewayOf(cidr, s.Gateways)
		if why != "" {
			return invalid("%s", why)
		}
		reserved := []model.AddrRange{{First: gateway, Last: gateway}}
		for _, x := range s.Exclude {
			if x.First.Is4() == cidr.Addr().Is4() {
				reserved = append(reserved, x)
			}
		}
		out.Ranges = append(out.Ranges, Range{CIDR: cidr, Gateway: gateway, Reserved: reserved, Withheld: c.withheld(cidr)})
	}
	if why := strayGateway(s); why != "" {
		return invalid("%s", why)
	}
	for _, b := range before {
		if b.Name == s.Name {
			return invalid("another subnet has the same name")
		}
		if x, y, overlap := overlapping(out, b); overlap {
			return SubnetLayout{}, new(model.Problemf(model.ReasonSubnetsOverlap,
				"subnet %q (%s) is not served: it overlaps subnet %q (%s), which is listed before it; give it other addresses",
				s.Name, x, b.Name, y))
		}
	}
	return out, nil
}

// unusable says why pods cannot have addresses of cidr; empty when they can.
func unusable(cidr netip.Prefix) string {
	a := cidr.Addr()
	switch {
	case !cidr.IsValid():
		return "is not a CIDR"
	case cidr.Masked() != cidr:
		return fmt.Sprintf("has host bits set; write %s", cidr.Masked())
	case a.Is4() && cidr.Bits() < minBits4:
		return fmt.Sprintf("is too large: an IPv4 range is a /%d or longer", minBits4)
	case a.Is4In6():
		return "is an IPv4 address written as IPv6; write it as IPv4"
	case a.Is6() && cidr.Bits() < alloc.MinBits6:
		return fmt.Sprintf("is too large: an IPv6 range is a /%d or longer", alloc.MinBits6)
	case cidr.IsSingleIP():
		return "is a single address"
	}
	for _, special := range specials {
		if special.cidr.Overlaps(cidr) {
			return "lies in " + special.what
		}
	}
	return ""
}

// specials are addresses that no host may have as its own. (RFC 6890; RFC 4291.)
var specials = []struct {
	cidr netip.Prefix
	what string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "0.0.0.0/8, which means this network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "127.0.0.0/8, the loopback addresses"},
	{netip.MustParsePrefix("169.254.0.0/16"), "169.254.0.0/16, the link-local addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "224.0.0.0/4, the multicast addresses"},
	{netip.MustParsePrefix("240.0.0.0/4"), "240.0.0.0/4, the reserved addresses"},
	{netip.MustParsePrefix("::/64"), "::/64, which holds the unspecified and the loopback address"},
	{netip.MustParsePrefix("fe80::/10"), "fe80::/10, the link-local addresses"},
	{netip.MustParsePrefix("fdd7:5e3c:91a4::/64"), "fdd7:5e3c:91a4::/64, under which pods see their porthole and their node"},
	{netip.MustParsePrefix("ff00::/8"), "ff00::/8, the multicast addresses"},
}

// gatewayOf picks the router's address in cidr: the one that was asked for, else the first host address that is free.
func (c Cluster) gatewayOf(cidr netip.Prefix, wanted []netip.Addr) (netip.Addr, string) {
	gateway := c.firstFree(cidr)
	found := false
	for _, w := range wanted {
		if !cidr.Contains(w) {
			continue
		}
		if found {
			return netip.Addr{}, fmt.Sprintf("gatewayIPs has two addresses of %s", cidr)
		}
		gateway, found = w, true
	}
	if !found {
		return gateway, ""
	}
	pool, err := alloc.New[string](cidr, nil)
	if err != nil {
		return netip.Addr{}, err.Error()
	}
	if outcome, _ := pool.Take(gateway, "gateway"); outcome != alloc.Taken {
		return netip.Addr{}, fmt.Sprintf("gateway %s is the network's or the broadcast address of %s", gateway, cidr)
	}
	return gateway, ""
}

// strayGateway names a gateway that is in none of the subnet's CIDRs.
func strayGateway(s model.Subnet) string {
	for _, g := range s.Gateways {
		if !slices.ContainsFunc(s.CIDRs, func(c netip.Prefix) bool { return c.Contains(g) }) {
			var cidrs []string
			for _, c := range s.CIDRs {
				cidrs = append(cidrs, c.String())
			}
			return fmt.Sprintf("gateway %s is outside of %s", g, strings.Join(cidrs, " and "))
		}
	}
	return ""
}

// AddrRangeOf is a CIDR as a range of addresses.
func AddrRangeOf(cidr netip.Prefix) model.AddrRange {
	return model.AddrRange{First: cidr.Masked().Addr(), Last: netipx.PrefixLastIP(cidr)}
}

func overlapping(a, b SubnetLayout) (netip.Prefix, netip.Prefix, bool) {
	for _, x := range a.Ranges {
		for _, y := range b.Ranges {
			if x.CIDR.Overlaps(y.CIDR) {
				return x.CIDR, y.CIDR, true
			}
		}
	}
	return netip.Prefix{}, netip.Prefix{}, false
}
