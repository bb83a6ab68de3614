package compatible

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/model"
)

// conflict says why a consumer's pods cannot reach a provider's although both want it; nil when they can. ranges are those of all Networks.
//
// Pods know each other by their faces, so that the subnets of both may be the same. What a consumer's pods dial must mean one thing to
// them: a face, and an address of the provider's service ranges, must not be the consumer's own, nor its Gateways', nor another provider's. And what a provider's
// pods see must mean one thing to them: whose address among faces is a pod of their own Network, nobody could tell.
func (s Settings) conflict(provider, consumer *model.Network, ranges map[string][]netip.Prefix) *model.Problem {
	for _, m := range []*model.Network{provider, consumer} {
		if m.Type != model.VPC || m.Name == s.Default {
			return new(model.Problemf(model.ReasonFlatNetwork,
				"Network %q is flat, and compatibility is between Networks of type %s: what pods reach of flat Networks says infraAccess, and who of those reaches a vpc one's pods infraIngress", m.Name, model.VPC))
		}
	}
	own := ranges[consumer.Name]
	for _, face := range s.Faces {
		if with, overlaps := overlapping(face, own); overlaps {
			return conflicting("%s of Network %q overlaps %s, the range of faces, by which its pods would dial those of Network %q: give it other addresses", with, consumer.Name, face, provider.Name)
		}
		if with, overlaps := overlapping(face, ranges[provider.Name]); overlaps {
			return conflicting("%s of Network %q overlaps %s, the range of faces, by which it would know the pods of Network %q: give it other addresses", with, provider.Name, face, consumer.Name)
		}
	}
	for _, offered := range provider.ServiceCIDRs {
		if with, overlaps := overlapping(offered, own); overlaps {
			return conflicting("service range %s of Network %q overlaps %s of Network %q: give one of them other addresses", offered, provider.Name, with, consumer.Name)
		}
		if with, overlaps := overlapping(offered, s.Gateways); overlaps {
			return conflicting("service range %s of Network %q overlaps %s, of which Gateways of Network %q have addresses (gatewayCIDRs of the AtollConfig): give it other addresses", offered, provider.Name, with, consumer.Name)
		}
	}
	return nil
}

// crowded says that a provider's service ranges are those of one of the providers that a consumer reaches already: to the consumer's owner
// with its name. The provider's owner has nothing to do with that one.
func crowded(provider, consumer *model.Network, reached []*model.Network) (toConsumer, toProvider *model.Problem) {
	for _, offered := range provider.ServiceCIDRs {
		for _, other := range reached {
			if with, overlaps := overlapping(offered, other.ServiceCIDRs); overlaps {
				return conflicting("service range %s of Network %q overlaps %s of Network %q, which Network %q reaches, too: give one of them other addresses",
						offered, provider.Name, with, other.Name, consumer.Name),
					conflicting("service range %s overlaps one that Network %q reaches already in another Network: give it other addresses", offered, consumer.Name)
			}
		}
	}
	return nil, nil
}

// ranges are all that addresses of a Network are from, as its owner wrote them.
func (s Settings) ranges(m *model.Network) []netip.Prefix {
	var out []netip.Prefix
	for _, subnet := range m.Subnets {
		out = append(out, subnet.CIDRs...)
	}
	if len(m.Subnets) == 0 && s.DefaultSubnet.IsValid() {
		out = append(out, s.DefaultSubnet)
	}
	return append(out, m.ServiceCIDRs...)
}

func overlapping(p netip.Prefix, others []netip.Prefix) (netip.Prefix, bool) {
	for _, other := range others {
		if other.Overlaps(p) {
			return other, true
		}
	}
	return netip.Prefix{}, false
}

func conflicting(format string, args ...any) *model.Problem {
	return new(model.Problemf(model.ReasonAddressConflict, format, args...))
}

// notOffered is one sentence for a Network that is not there and one that does not want it: nobody learns which Networks there are.
func notOffered(provider string) model.Problem {
	return model.Problemf(model.ReasonNotOffered,
		"Network %q does not exist, or is not compatible with this one: its owner says so in its compatibleWith", provider)
}

func notJoined(consumer string) model.Problem {
	return model.Problemf(model.ReasonNotJoined,
		"it is by face: Network %q is another tenant's, and does not ask for mode Routed of this one in its compatibleWith", consumer)
}

func notUsed(consumer string) model.Problem {
	return model.Problemf(model.ReasonNotUsed, "Network %q does not exist, or is another tenant's and does not list this one in its uses", consumer)
}
