package compatible

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
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

// join decides which Networks are joined, of those that ask for it: the older pairs first. Where more would be joined than may be, these
// have it, whatever came first to be known.
func (n *Networks) join() joints {
	out := joints{with: index{}, sizes: map[string]int{}, refused: map[pair]refusal{}}
	asked := n.asked()
	// root leads from each Network to one that stands for all who are joined to it.
	root := map[string]string{}
	find := func(name string) string {
		for root[name] != "" {
			name = root[name]
		}
		return name
	}
	terms := joining{n, map[string][]*extent{}, map[string][]claim{}}
	apart := make([]*refusal, len(asked))
	for i, p := range asked {
		if apart[i] = n.apart(p.pair); apart[i] == nil {
			terms.partners[p.a] = append(terms.partners[p.a], n.extents[p.b])
			terms.partners[p.b] = append(terms.partners[p.b], n.extents[p.a])
		}
	}
	count := map[string]int{}
	for i, asks := range asked {
		p := asks.pair
		one, other := find(p.a), find(p.b)
		size := max(count[one], 1) + max(count[other], 1)
		if one != other && size > n.settings.MaxJoined {
			problem := model.Problemf(model.ReasonTooManyJoined,
				"mode Routed between Networks %q and %q would join %d Networks directly and by others, of at most %d: use mode ByFace, or join fewer",
				p.a, p.b, size, n.settings.MaxJoined)
			out.refused[p] = refusal{problem, problem}
			continue
		}
		r := apart[i]
		if r == nil {
			r = terms.crowded(p)
		}
		if r != nil {
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

// asked are the pairs that ask to be joined, the older ones first. A pair is as old as the younger one of the two.
func (n *Networks) asked() []agedPair {
	out := make([]agedPair, 0, len(n.asking))
	for p := range n.asking {
		since := n.known[p.a].Created
		if b := n.known[p.b].Created; b.After(since) {
			since = b
		}
		out = append(out, agedPair{p, since})
	}
	slices.SortFunc(out, func(x, y agedPair) int {
		return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	return out
}

type agedPair struct {
	pair

	since time.Time
}

// apart says why two Networks cannot be joined whatever others there are: their addresses are the same, or another tenant's are the
// infrastructure's.
func (n *Networks) apart(p pair) *refusal {
	a, b := n.extents[p.a], n.extents[p.b]
	if o := a.with(b, &n.work); o != nil {
		if r, with, overlaps := a.first(b, &o.any); overlaps {
			problem := *conflicting(
				"%s of Network %q overlaps %s of Network %q, and mode Routed knows pods by their own addresses: give one of them other "+
					"addresses, or use mode ByFace", r, p.a, with, p.b)
			return &refusal{problem, problem}
		}
	}
	if a.tenant == b.tenant {
		return nil
	}
	for _, e := range []*extent{a, b} {
		for which := range parts {
			v := n.among(claim{part: which, extent: e}, n.everybodys())
			if v.place == 0 {
				continue
			}
			problem := *conflicting(
				"%s of Network %q overlaps %s, and mode Routed would lead there what pods of another tenant's Network send: give it other "+
					"addresses, or use mode ByFace",
				e.parts[which][v.place-1].cidr, e.network, v.with)
			return &refusal{problem, problem}
		}
	}
	return nil
}

// joining is what is known of Networks that ask to be joined.
type joining struct {
	*Networks

	// partners are those that a Network asks to be joined to, or is asked by, and that nothing keeps apart from it. dialled are a Network's
	// claims.
	partners map[string][]*extent
	dialled  map[string][]claim
}

// crowded says why two Networks cannot be joined that nothing keeps apart: in each of them an address must mean one thing, its own, those
// of the other one, of others that it is to be joined to, and of what it dials in those that it reaches by face. Of two others that have
// the same, it is the one that had it first. nil when they can. That neither has faces among its own conflict has seen.
func (j joining) crowded(p pair) *refusal {
	if r := j.crowdedAt(p.a, p.b); r != nil {
		return r
	}
	if r := j.crowdedAt(p.b, p.a); r != nil {
		return &refusal{r.b, r.a}
	}
	return nil
}

// crowdedAt says that the ranges of a Network mean something else to one that is to be joined to it: a third one's, which had it first.
// The second's owner has nothing to do with that one, and does not hear its name.
func (j joining) crowdedAt(name, other string) *refusal {
	var third string
	var mine, theirs netip.Prefix
	e := j.extents[other]
	look := func(o *extent, some ...part) {
		if o == e || third != "" && third <= o.network {
			return
		}
		with := e.with(o, &j.work)
		if with == nil {
			return
		}
		of := with.older
		for a := range parts {
			for b := range parts {
				if !slices.Contains(some, b) {
					of[a][b] = overlap{}
				}
			}
		}
		if r, t, found := e.first(o, &of); found {
			third, mine, theirs = o.network, r, t
		}
	}
	for _, o := range j.partners[name] {
		look(o, ofPods, ofServices)
	}
	for _, c := range j.claimsOf(name) {
		look(c.extent, c.part)
	}
	if third == "" {
		return nil
	}
	return &refusal{
		a: *conflicting("%s of Network %q overlaps %s of Network %q, which Network %q reaches, too: give one of them other addresses", mine,
			other, theirs, third, name),
		b: *conflicting("%s overlaps what Network %q reaches already in another Network: give it other addresses, or use mode ByFace", mine,
			name),
	}
}

func (j joining) claimsOf(name string) []claim {
	if _, made := j.dialled[name]; !made {
		j.dialled[name] = j.claims(j.judged[name])
	}
	return j.dialled[name]
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
