package compile

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// PlanServices decides which service ranges of a Network can be served as far as the Network alone tells: what the
// infrastructure has is not known here. For each of the others there is a Problem that names it.
func PlanServices(n model.Network, c Cluster) ([]netip.Prefix, []model.Problem) {
	layout, _ := Plan(n, c)
	return layout.planServices(n)
}

func (l Layout) planServices(n model.Network) ([]netip.Prefix, []model.Problem) {
	var out []netip.Prefix
	var problems []model.Problem
	refuse := func(reason, format string, args ...any) {
		problems = append(problems, model.Problemf(reason, format, args...))
	}
	if n.ServiceCIDRsError != "" {
		refuse(model.ReasonServiceCIDRInvalid, "serviceCIDRs: %s", n.ServiceCIDRsError)
	}
	for _, cidr := range n.ServiceCIDRs {
		if n.Type != model.VPC {
			refuse(model.ReasonServiceCIDRInvalid, "service range %s is not served: only a Network of type %s has its own", cidr, model.VPC)
			continue
		}
		if why := unusable(cidr); why != "" {
			refuse(model.ReasonServiceCIDRInvalid, "service range %s is not served: it %s", cidr, why)
			continue
		}
		if subnet, r, overlaps := l.overlapping(cidr); overlaps {
			refuse(model.ReasonServiceCIDROverlaps, "service range %s is not served: it overlaps subnet %q (%s); give it other addresses", cidr,
				subnet, r)
			continue
		}
		out = append(out, cidr)
	}
	return out, problems
}

// overlapping finds a subnet's range that overlaps another.
func (l Layout) overlapping(cidr netip.Prefix) (subnet string, r netip.Prefix, found bool) {
	for subnet, r := range l.Ranges() {
		if r.CIDR.Overlaps(cidr) {
			return subnet, r.CIDR, true
		}
	}
	return "", netip.Prefix{}, false
}
