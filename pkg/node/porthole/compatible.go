package porthole

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/nftables"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Pods of a consumer reach those of a provider by their faces, and have faces themselves then: from the one porthole to the other
// on the same node, or by way of atoll0. Which face is whose, OVN knows, and judges in the consumer's own switches. Here it is
// judged a second time: on one node by both portholes, from node to node by what part the Network of the porthole has.
//
// A connection's direction says who asks: what goes the way of its first packet comes from the consumer, what goes the other way,
// and errors about what the consumer sent, from the provider. Each packet is judged, so that what is open ends with what allowed
// it.

// Compatible is a Network whose pods reach another one's, by their UIDs.
type Compatible struct {
	Consumer, Provider string
}

func compareCompatible(a, b Compatible) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Provider, b.Provider))
}

// direction says which directions of connections between faces a Network has a part in, of those that a chain judges.
type direction struct {
	// asked is that of a connection's first packet, and answered the other.
	asked, answered bool
}

// strangers has what goes from or to faces, in a direction that the Network has no part in, be dealt with as verdict says.
func (t *transaction) strangers(chain string, address func(family) words, part direction, verdict words) {
	var way words
	switch {
	case part.asked && part.answered:
		return
	case part.asked:
		way = ctReply()
	case part.answered:
		way = ctOriginal()
	}
	t.both(chain, func(f family) []words { return []words{address(f), in("faces" + f.version), way, verdict} })
}

// The sets of portholes, by the node's ends of their links.
const (
	setConsumers, setProviders = "consumers", "providers"
	// setCompatible has a consumer's and its provider's.
	setCompatible = "compatible"
)

// compatibleSets are who of the Networks reaches whom.
func compatibleSets(t *transaction, all []Compatible) {
	parts := map[string]map[string]struct{}{setConsumers: {}, setProviders: {}}
	links := map[string]string{}
	linkOf := func(uid, part string) string {
		if _, has := links[uid]; !has {
			links[uid] = IDOf(uid).HostLink()
		}
		parts[part][links[uid]] = struct{}{}
		return links[uid]
	}
	var pairs []element
	for _, c := range all {
		pairs = append(pairs, element{key: append(ifname(linkOf(c.Consumer, setConsumers)), ifname(linkOf(c.Provider, setProviders))...)})
	}
	for _, part := range []string{setConsumers, setProviders} {
		t.addSet(set{name: part, key: nftables.TypeIFName, hostOrder: true}, ifnames(slices.Sorted(maps.Keys(parts[part]))...))
	}
	t.addSet(set{name: setCompatible, key: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIFName), hostOrder: true}, pairs)
}

// writeCompatible judges what goes between faces.
func writeCompatible(t *transaction) {
	// From a porthole, whose faces are the only sources that it can have.
	t.rule("to-face", ctState(invalid), drop())
	t.rule("to-face", ask("closed"))
	t.rule("to-face", ctOriginal(), iifToOif(), in(setCompatible), accept())
	t.rule("to-face", ctReply(), oifToIif(), in(setCompatible), accept())
	t.rule("to-face", oifname(model.NodeInterface), ctOriginal(), iif(), in(setConsumers), accept())
	t.rule("to-face", oifname(model.NodeInterface), ctReply(), iif(), in(setProviders), accept())
	t.rule("to-face", goTo("refuse"))

	// To a porthole, and not from another one here.
	t.rule("from-face", iifname(model.NodeInterface), ctOriginal(), oif(), in(setProviders), accept())
	t.rule("from-face", iifname(model.NodeInterface), ctReply(), oif(), in(setConsumers), accept())
	t.rule("from-face", drop())
}
