package oracle

import (
	"net/netip"
	"slices"
)

// Compatibility says that pods of a consumer reach those of a provider. They know each other by their faces only: the consumer's
// pod dials the provider's pod by its face, and is seen by its own. It is not the other way round as well, and not passed on.
type Compatibility struct {
	Provider string `json:"provider"`
	Consumer string `json:"consumer"`
}

// FaceRanges are where faces come from if nobody says otherwise.
func FaceRanges() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}
}

// reaches reports whether pods of one Network reach those of another.
func (c Cluster) reaches(consumer, provider string) bool {
	return slices.Contains(c.Compatible, Compatibility{provider, consumer})
}

// foreign is the pod of another Network that a Network's pod meets at an end in that direction: the one with that face, if it may
// come in, or may be reached. Selectors mean it as they mean the Network's own. nil: nobody is there of whom the Network has to
// know.
func (c Cluster) foreign(network string, e End, d Direction) *Pod {
	i := slices.IndexFunc(c.Pods, func(p Pod) bool { return p.Network != network && slices.Contains(p.Faces, e.Address) })
	if i < 0 || e.Pod != "" || e.Node != "" {
		return nil
	}
	other := c.Pods[i].Network
	if d == Ingress && c.reaches(other, network) || d == Egress && c.reaches(network, other) {
		return &c.Pods[i]
	}
	return nil
}

// apart reports whether a face is kept from a Network's pods, whatever policies say: in a Network that serves others, what comes
// from anybody but pods of these; in one that uses others, what goes to anybody but pods of these. In Networks that have to do
// with nobody the node refuses it, and no policy sees it.
func (c Cluster) apart(network string, e End, d Direction) bool {
	face := slices.ContainsFunc(FaceRanges(), func(r netip.Prefix) bool { return r.Contains(e.Address) })
	if !face || e.Pod != "" || e.Node != "" {
		return false
	}
	concerned := slices.ContainsFunc(c.Compatible, func(x Compatibility) bool {
		return d == Ingress && x.Provider == network || d == Egress && x.Consumer == network
	})
	return concerned && c.foreign(network, e, d) == nil
}
