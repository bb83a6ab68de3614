package nb

import "strings"

// Origin says whose an ACL is and what it decides. It stands as a comment in the ACL's match, which ovn-northd hands on word
// by word: so the logical flows of the southbound database say it too, and who counts their packets on a node needs
// nothing of the northbound database, which no node can read. (ovn-sb(5), Logical_Flow: comments.)
type Origin struct {
	// Network of the ports that the ACL judges; empty for those that are the same in all: the guard, what keeps strangers out, what
	// nobody serves, and what consumers have of a provider.
	Network string
	// Policy is its kind, namespace and name; or one of the words Isolation, OwnNode, Itself, EachTier, Guard, Faces, Peers, Apart
	// and Unserved.
	Policy string
	// Direction is Ingress or Egress, as seen from the pod.
	Direction string
	// Rule is the rule's place in its policy, from 0; RuleIsolation where the policy's isolation is logged; empty for what is
	// no policy's.
	Rule string
	// Verdict is allow, drop, pass or reject.
	Verdict string
}

// Policies that are none.
const (
	// Isolation drops what no policy allows a pod that some policy isolates.
	Isolation = "isolation"
	// OwnNode lets a pod's own node reach it.
	OwnNode = "own-node"
	// Itself lets a pod reach itself through a virtual address.
	Itself = "itself"
	// EachTier has a connection that was forbidden judged in each tier again.
	EachTier = "each-tier"
	// Guard drops what no pod may send, in the name of a router or of a DHCP server.
	Guard = "guard"
	// Faces says who in the default Network reaches the pods of others by their faces.
	Faces = "faces"
	// Peers says which other Networks' faces pods reach, and whose reach them.
	Peers = "peers"
	// Apart keeps the pods of flat Networks from those of others.
	Apart = "apart"
	// Unserved refuses datagrams to addresses that no load balancer leads from.
	Unserved = "unserved"
)

// RuleIsolation is the rule of a policy that says that its pods are isolated.
const RuleIsolation = "isolation"

const (
	originBegins = " /* atoll "
	originEnds   = " */"
	// noWord stands where there is none, so that the words can be counted.
	noWord = "-"
)

// originWords is how many words an origin has.
const originWords = 5

// Comment is the origin as it stands behind a match. What could end the comment does not come through.
func (o Origin) Comment() string {
	words := make([]string, 0, originWords)
	for _, w := range []string{o.Network, o.Policy, o.Direction, o.Rule, o.Verdict} {
		if w == "" {
			w = noWord
		}
		words = append(words, strings.Map(harmless, w))
	}
	return originBegins + strings.Join(words, " ") + originEnds
}

// harmless leaves the characters that names in Kubernetes have, and the slash between them.
func harmless(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-._/:", r):
		return r
	}
	return '?'
}

// OriginOf finds the origin in the match of an ACL, or of a logical flow that northd made of it; false when it has none.
func OriginOf(match string) (Origin, bool) {
	_, rest, found := strings.Cut(match, originBegins)
	text, _, ended := strings.Cut(rest, originEnds)
	words := strings.Fields(text)
	if !found || !ended || len(words) != originWords {
		return Origin{}, false
	}
	for i := range words {
		if words[i] == noWord {
			words[i] = ""
		}
	}
	return Origin{Network: words[0], Policy: words[1], Direction: words[2], Rule: words[3], Verdict: words[4]}, true
}
