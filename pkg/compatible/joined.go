package compatible

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/model"
)

// The bounds on how many Networks are joined by mode Routed, directly and by others, where nothing else is said, and the least and the most
// that may be said: each node of any of them carries all of them, by about 700 logical flows and 1.8 MB for each.
// (docs/design/measurements.md.)
const (
	MaxJoined      = 32
	LeastMaxJoined = 2
	MostMaxJoined  = 256
)

// pair are two Networks, of which one asks to be joined to the other. The first one's name is the lesser.
type pair struct{ a, b string }

func pairOf(one, other string) pair {
	return pair{min(one, other), max(one, other)}
}

// joints are which Networks' routers are joined.
type joints struct {
	// with are those that a Network is joined to, and sizes how many are joined directly and by others, itself among them.
	with  index
	sizes map[string]int
	// refused say why two Networks are not, to the owner of each.
	refused map[pair]refusal
}

// refusal is what the owners of the two of a pair are told.
type refusal struct{ a, b model.Problem }

// to is what the owner of a Network is told.
func (r refusal) to(p pair, name string) model.Problem {
	if p.a == name {
		return r.a
	}
	return r.b
}

// join decides which Networks are joined, of those that ask for it: the older pairs first. Where more would be joined than may be, these have it,
// whatever came first to be known.
func (n *Networks) join() joints {
	out := joints{with: index{}, sizes: map[string]int{}, refused: map[pair]refusal{}}
	asked := slices.SortedFunc(maps.Keys(n.asking), func(x, y pair) int {
		return cmp.Or(n.youngerOf(x).Created.Compare(n.youngerOf(y).Created), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	// root leads from each Network to one that stands for all who are joined to it.
	root := map[string]string{}
	find := func(name string) string {
		for root[name] != "" {
			name = root[name]
		}
		return name
	}
	// partners are those that a Network asks to be joined to, or is asked by.
	partners := index{}
	for _, p := range asked {
		if n.apart(p) == nil {
			partners.add(p.a, p.b)
			partners.add(p.b, p.a)
		}
	}
	count := map[string]int{}
	for _, p := range asked {
		one, other := find(p.a), find(p.b)
		size := max(count[one], 1) + max(count[other], 1)
		if one != other && size > n.settings.MaxJoined {
			problem := model.Problemf(model.ReasonTooManyJoined,
				"mode Routed between Networks %q and %q would join %d Networks directly and by others, of at most %d: use mode ByFace, or join fewer", p.a, p.b, size, n.settings.MaxJoined)
			out.refused[p] = refusal{problem, problem}
			continue
		}
		if r := n.keepsApart(p, partners); r != nil {
			out.refused[p] = *r
			continue
		}
		if one != other {
			root[other], count[one] = one, size
		}
		out.with.add(p.a, p.b)
		out.with.add(p.b, p.a)
	}
	for name := range out.with {
		out.sizes[name] = count[find(name)]
	}
	return out
}

// askToJoin notes on a provider of another tenant that asks to be joined to a consumer why it is not. Who asks for it hears it.
func askToJoin(p *peer, provider, consumer *model.Network) {
	if !asksToJoin(consumer, provider) {
		p.toProvider = notJoined(consumer.Name)
		return
	}
	p.problem = *strange(provider, consumer)
	p.toProvider = p.problem
}

// youngerOf is the one of two that came later.
func (n *Networks) youngerOf(p pair) *model.Network {
	a, b := n.known[p.a], n.known[p.b]
	if a.Created.After(b.Created) {
		return a
	}
	return b
}

// keepsApart says why two Networks cannot be joined: in each of them an address must mean one thing, its own, those of the other one, of
// others that it is to be joined to, and of what it dials in those that it reaches by face. Of two others that have the same, it is the one that
// had it first. nil when they can. That neither has faces among its own conflict has seen.
func (n *Networks) keepsApart(p pair, partners index) *refusal {
	if r := n.apart(p); r != nil {
		return r
	}
	if r := n.crowdedAt(p.a, p.b, partners); r != nil {
		return &refusal{r.a, r.b}
	}
	if r := n.crowdedAt(p.b, p.a, partners); r != nil {
		return &refusal{r.b, r.a}
	}
	return nil
}

// apart says why two Networks cannot be joined whatever others there are: their addresses are the same, or another tenant's are the
// infrastructure's.
func (n *Networks) apart(p pair) *refusal {
	for _, r := range n.ranges[p.a] {
		if with, overlaps := overlapping(r, n.ranges[p.b]); overlaps {
			problem := *conflicting("%s of Network %q overlaps %s of Network %q, and mode Routed knows pods by their own addresses: give one of them other addresses, or use mode ByFace", r, p.a, with, p.b)
			return &refusal{problem, problem}
		}
	}
	if n.known[p.a].Tenant == n.known[p.b].Tenant {
		return nil
	}
	known := n.everybodys()
	for _, name := range []string{p.a, p.b} {
		if r, with, overlaps := n.ambiguous(claim{provider: name, ranges: n.ranges[name]}, nil, known); overlaps {
			problem := *conflicting("%s of Network %q overlaps %s, and mode Routed would lead there what pods of another tenant's Network send: give it other addresses, or use mode ByFace", r, name, with)
			return &refusal{problem, problem}
		}
	}
	return nil
}

// crowdedAt says that the ranges of a Network mean something else to one that is to be joined to it: a third one's, which had it first. The second's
// owner has nothing to do with that one, and does not hear its name.
func (n *Networks) crowdedAt(name, other string, partners index) *refusal {
	var first string
	var mine, theirs netip.Prefix
	look := func(third string, taken []netip.Prefix) {
		if third == other || first != "" && first <= third {
			return
		}
		for _, r := range n.ranges[other] {
			for _, t := range taken {
				if t.Overlaps(r) && n.older(third, t, other, r) {
					first, mine, theirs = third, r, t
					return
				}
			}
		}
	}
	for third := range partners[name] {
		look(third, n.ranges[third])
	}
	for _, c := range n.claims(n.judged[name]) {
		look(c.provider, c.ranges)
	}
	if first == "" {
		return nil
	}
	return &refusal{
		a: *conflicting("%s of Network %q overlaps %s of Network %q, which Network %q reaches, too: give one of them other addresses", mine, other, theirs, first, name),
		b: *conflicting("%s overlaps what Network %q reaches already in another Network: give it other addresses, or use mode ByFace", mine, name),
	}
}

// Joined are the Networks whose routers are joined to a Network's, sorted: their pods know each other by their own addresses, where one may
// reach the other at all.
func (n *Networks) Joined(name string) []string {
	return slices.Sorted(maps.Keys(n.joints.with[name]))
}

// JoinedTo reports whether the routers of two Networks are joined.
func (n *Networks) JoinedTo(name, other string) bool {
	_, yes := n.joints.with[name][other]
	return yes
}

// JoinedInAll is how many Networks are joined to one directly and by others, itself among them; 0 when none are.
func (n *Networks) JoinedInAll(name string) int { return n.joints.sizes[name] }
