package compatible

import (
	"net/netip"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// conflict says why a consumer's pods cannot reach a provider's although both want it; nil when they can. ranges are those of all Networks.
//
// Pods know each other by their faces, so that the subnets of both may be the same. What a consumer's pods dial must mean one
// thing to them: a face must not be the consumer's own. And what a provider's pods see must mean one thing to them: whose address
// among faces is a pod of their own Network, nobody could tell. What else they are to dial decides dial: that closes nothing
// which is open by faces.
func (s Settings) conflict(provider, consumer *model.Network, ranges map[string][]netip.Prefix) *model.Problem {
	for _, m := range []*model.Network{provider, consumer} {
		if m.Type != model.VPC || m.Name == s.Default {
			return new(model.Problemf(model.ReasonFlatNetwork,
				"Network %q is flat, and compatibility is between Networks of type %s: what pods reach of flat Networks says infraAccess, and who of "+
					"those reaches a vpc one's pods infraIngress", m.Name, model.VPC))
		}
	}
	for _, face := range s.Faces {
		if with, overlaps := overlapping(face, ranges[consumer.Name]); overlaps {
			return conflicting(
				"%s of Network %q overlaps %s, the range of faces, by which its pods would dial those of Network %q: give it other addresses", with,
				consumer.Name, face, provider.Name)
		}
		if with, overlaps := overlapping(face, ranges[provider.Name]); overlaps {
			return conflicting(
				"%s of Network %q overlaps %s, the range of faces, by which it would know the pods of Network %q: give it other addresses", with,
				provider.Name, face, consumer.Name)
		}
	}
	return nil
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

func notAgreed(r netip.Prefix, of, by string) model.Problem {
	return model.Problemf(model.ReasonNotJoined,
		"it is by face: %s of Network %q lies in none of the ranges that Network %q, which is another tenant's, lists for it in usesServiceCIDRs",
		r, of, by)
}

func notUsed(consumer string) model.Problem {
	return model.Problemf(model.ReasonNotUsed, "Network %q does not exist, or is another tenant's and does not list this one in its uses",
		consumer)
}
