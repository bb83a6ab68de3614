package ledger

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Virtual holds the virtual addresses of Networks: who has which address of their service ranges, or of those that all Networks share,
// and who waits for one.
//
//	Claim, Withdraw --> Settle --> GrantTo, Granted
//
// Settle goes through the claims that came or changed. What earlier decisions gave is held before anything is granted. Whoever has
// addresses comes before those that had some, these before newcomers, and the older before the younger. When addresses come free,
// those that wait for some in that Network are looked at again. That ends: an owner gives an address back only for one that it
// asks for before that one, and then it does not wait for that any more.
type Virtual struct {
	shared   Shared
	networks map[string]*virtualRanges
	claims   map[nb.Owner]*claim
	// changed claims are to be looked at.
	changed map[nb.Owner]struct{}
	// freed Networks have addresses again for owners that wait.
	freed map[string]struct{}
	// Ranges tells of Networks with other ranges than before, and Counts of those where addresses were given or came free.
	Ranges, Counts *pass.Topic[string]
	// Granted tells of owners whose claims have been looked at.
	Granted *pass.Topic[nb.Owner]
}

// Shared are ranges that each Network has for itself, of an IP family of which it serves no range of its own.
type Shared struct {
	// Ranges are at most one of an IP family. Nobody gets addresses of them that are Reserved.
	Ranges   []netip.Prefix
	Reserved []model.AddrRange
}

// Serving is what a Network has of virtual addresses.
type Serving struct {
	// UID is that of the Network: one that is made anew under its name has given nothing yet. It is empty when there is none.
	UID string
	// Own are the ranges that it serves itself, at most one of an IP family.
	Own []netip.Prefix
	// Taken are addresses of the shared ranges that mean something else there.
	Taken []model.AddrRange
}

// virtualRanges are those of a Network: its own and, of the other IP families, the shared ones.
type virtualRanges struct {
	Serving
	pools *Ranges
	// waiting owners lack an address that others have.
	waiting map[nb.Owner]struct{}
}

// Claim is what an owner asks of a Network: at most one address of each IP family.
type Claim struct {
	// UID is the owner's. Network and NetworkUID say where it asks.
	UID, Network, NetworkUID string
	Created                  time.Time
	// Former are addresses that an earlier decision gave it there. Known: one gave it some, there or elsewhere.
	Former []netip.Addr
	Known  bool
	// Shared: addresses of the shared ranges will do where the Network has none of its own.
	Shared bool
	// IPv4 and IPv6 are what it wishes of each family.
	IPv4, IPv6 Wish
}

// Wish is what an owner asks of one IP family.
type Wish struct {
	// Asked are addresses that it asks for. It gets the first that can be had.
	Asked []netip.Addr
	// Otherwise is what it gets when it gets none of these.
	Otherwise Otherwise
}

// Otherwise is what an owner gets that does not get an address it asks for.
type Otherwise uint8

// Nothing: it gives back what it has. Kept: it keeps that. Any: it keeps that, or gets the next free address.
const (
	Nothing Otherwise = iota
	Kept
	Any
)

// Grant is what an owner has, IPv4 first, and what it does not get.
type Grant struct {
	Addresses []netip.Addr
	Refusals  []Refusal
}

// Refusal says what cannot be had.
type Refusal struct {
	// Asked is the address, and Outcome why not. When it is InUse, Holder has it.
	Asked   netip.Addr
	Outcome alloc.Outcome
	Holder  nb.Owner
	// Full is the range in which no address is free, when any would do.
	Full netip.Prefix
}

// claim is a Claim and what was granted.
type claim struct {
	Claim
	owner nb.Owner
	grant Grant
}

// NewVirtual makes the books of no Network. Ranges change in the stage ranges, and addresses are granted in the stage grants.
func NewVirtual(shared Shared, ranges, grants pass.Stage) *Virtual {
	return &Virtual{
		shared: shared, networks: map[string]*virtualRanges{}, claims: map[nb.Owner]*claim{},
		changed: map[nb.Owner]struct{}{}, freed: map[string]struct{}{},
		Ranges: pass.NewTopic[string](ranges), Counts: pass.NewTopic[string](grants), Granted: pass.NewTopic[nb.Owner](grants),
	}
}

// Serve says what a Network has. Whoever has an address of a range that stays keeps it.
func (v *Virtual) Serve(network string, s Serving) {
	old := v.networks[network]
	switch {
	case s.UID == "" && old == nil:
		return
	case s.UID == "":
		delete(v.networks, network)
	case old != nil && old.UID == s.UID && slices.Equal(old.Own, s.Own) && slices.Equal(old.Taken, s.Taken):
		return
	default:
		v.networks[network] = &virtualRanges{Serving: s, pools: v.poolsOf(s), waiting: map[nb.Owner]struct{}{}}
		if old != nil && old.UID == s.UID {
			v.takeOver(v.networks[network], old)
		}
	}
	v.Free(network)
	v.Ranges.Changed(network)
}

// poolsOf are the pools of a Network's own ranges, and of those shared ones that it needs. Whoever planned the ranges has refused
// what no pool can serve.
func (v *Virtual) poolsOf(s Serving) *Ranges {
	own := func(like netip.Addr) bool {
		return slices.ContainsFunc(s.Own, func(p netip.Prefix) bool { return p.Addr().Is4() == like.Is4() })
	}
	shared := slices.DeleteFunc(slices.Clone(v.shared.Ranges), func(p netip.Prefix) bool { return own(p.Addr()) })
	reserved := slices.DeleteFunc(slices.Concat(v.shared.Reserved, s.Taken), func(r model.AddrRange) bool { return own(r.First) })
	if pools, err := NewRanges(slices.Concat(s.Own, shared), reserved...); err == nil {
		return pools
	}
	return noRanges
}

var noRanges, _ = NewRanges(nil)

// takeOver carries over what the same Network has given of ranges that are still there. Those that wait go on waiting.
func (v *Virtual) takeOver(now, old *virtualRanges) {
	for _, owner := range old.pools.Owners() {
		for _, a := range old.pools.Held(owner) {
			now.take(v.claims[owner], a)
		}
	}
	now.waiting = old.waiting
}

// Served are the ranges of its own that a Network serves. The caller does not change them.
func (v *Virtual) Served(network string) []netip.Prefix {
	if n := v.networks[network]; n != nil {
		return n.Own
	}
	return nil
}

// Usable are the ranges for those that may use shared ones in a Network, IPv4 first.
func (v *Virtual) Usable(network string) []netip.Prefix {
	var out []netip.Prefix
	if n := v.networks[network]; n != nil {
		for _, pool := range n.pools.Pools() {
			out = append(out, pool.Prefix())
		}
	}
	return out
}

// Pools are those of the ranges of its own that a Network serves, IPv4 first, to count by.
func (v *Virtual) Pools(network string) []*Pool {
	n := v.networks[network]
	if n == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.pools.Pools()), func(pool *Pool) bool { return !slices.Contains(n.Own, pool.Prefix()) })
}

// Claim says what an owner asks for now.
func (v *Virtual) Claim(owner nb.Owner, c Claim) {
	old := v.claims[owner]
	if old != nil && (old.UID != c.UID || old.Network != c.Network || old.NetworkUID != c.NetworkUID) {
		v.Withdraw(owner)
		old = nil
	}
	if old == nil {
		old = &claim{owner: owner}
		v.claims[owner] = old
	}
	old.Claim = c
	v.changed[owner] = struct{}{}
}

// Withdraw ends an owner's claim, and its hold on what it has.
func (v *Virtual) Withdraw(owner nb.Owner) {
	c := v.claims[owner]
	if c == nil {
		return
	}
	delete(v.claims, owner)
	delete(v.changed, owner)
	n := v.ranges(c)
	if n == nil {
		return
	}
	delete(n.waiting, owner)
	if len(n.pools.Held(owner)) > 0 {
		n.pools.Release(owner)
		v.Free(c.Network)
	}
}

// ranges are those that a claim asks of; nil when its Network has gone.
func (v *Virtual) ranges(c *claim) *virtualRanges {
	if n := v.networks[c.Network]; n != nil && n.UID == c.NetworkUID {
		return n
	}
	return nil
}

// Free notes a Network where addresses became free: Settle decides anew about the claims that wait for one.
func (v *Virtual) Free(network string) {
	v.freed[network] = struct{}{}
	v.Counts.Changed(network)
}

// GrantTo is what was granted to an owner, where it asked last. The caller does not change it.
func (v *Virtual) GrantTo(owner nb.Owner) (Claim, Grant, bool) {
	if c := v.claims[owner]; c != nil {
		return c.Claim, c.grant, true
	}
	return Claim{}, Grant{}, false
}

// Settle grants what can be had.
func (v *Virtual) Settle() {
	claims := v.inOrder(v.changed)
	clear(v.changed)
	for _, c := range claims {
		v.hold(c)
	}
	for len(claims) > 0 || len(v.freed) > 0 {
		for _, c := range claims {
			v.grant(c)
		}
		claims = v.inOrder(v.waiting())
	}
}

// inOrder are the claims of owners, in the order in which they are granted.
func (v *Virtual) inOrder(owners map[nb.Owner]struct{}) []*claim {
	out := make([]*claim, 0, len(owners))
	for owner := range owners {
		out = append(out, v.claims[owner])
	}
	slices.SortFunc(out, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.standing(), b.standing()), a.Created.Compare(b.Created), a.owner.Compare(b.owner))
	})
	return out
}

// standing orders claims: 0 has addresses, 1 had some, 2 is a newcomer.
func (c *claim) standing() int {
	switch {
	case len(c.grant.Addresses) > 0:
		return 0
	case c.Known:
		return 1
	}
	return 2
}

// waiting are those that wait where addresses have come free since it was last asked.
func (v *Virtual) waiting() map[nb.Owner]struct{} {
	out := map[nb.Owner]struct{}{}
	for network := range v.freed {
		if n := v.networks[network]; n != nil {
			maps.Copy(out, n.waiting)
		}
	}
	clear(v.freed)
	return out
}

// hold takes what an earlier decision gave to an owner, as far as nobody else has it, a range still holds it, and the owner has
// none of its family.
func (v *Virtual) hold(c *claim) {
	n := v.ranges(c)
	if n == nil {
		return
	}
	for _, a := range c.Former {
		if !slices.ContainsFunc(n.pools.Held(c.owner), func(has netip.Addr) bool { return has.Is4() == a.Is4() }) {
			n.take(c, a)
			v.Counts.Changed(c.Network)
		}
	}
}

// grant gives an owner what it claims, as far as it can be had.
func (v *Virtual) grant(c *claim) {
	n := v.ranges(c)
	if n == nil {
		c.grant = Grant{}
		return
	}
	before := n.pools.Held(c.owner)
	refusals := slices.Concat(
		n.meet(c, netip.IPv4Unspecified(), c.IPv4),
		n.meet(c, netip.IPv6Unspecified(), c.IPv6),
	)
	delete(n.waiting, c.owner)
	if slices.ContainsFunc(refusals, func(r Refusal) bool { return r.Outcome == alloc.InUse || r.Full.IsValid() }) {
		n.waiting[c.owner] = struct{}{}
	}
	c.grant = Grant{Addresses: n.pools.Held(c.owner), Refusals: refusals}
	if !slices.Equal(before, c.grant.Addresses) {
		v.Counts.Changed(c.Network)
		if len(before) > 0 {
			v.freed[c.Network] = struct{}{}
		}
	}
	v.Granted.Changed(c.owner)
}

// rangeOf is the range of an address' IP family that a claim may use; false when there is none.
func (n *virtualRanges) rangeOf(c *claim, like netip.Addr) (netip.Prefix, bool) {
	r, has := n.pools.Range(like)
	return r, has && (c.Shared || slices.Contains(n.Own, r))
}

// take gives an owner an address, if its claim may use the range. When it is InUse, the other owner is returned.
func (n *virtualRanges) take(c *claim, a netip.Addr) (outcome alloc.Outcome, other nb.Owner) {
	if _, may := n.rangeOf(c, a); !may {
		return alloc.Outside, other
	}
	return n.pools.Take(c.owner, a)
}

// meet gives an owner what it wishes of a family, given by any address of it.
func (n *virtualRanges) meet(c *claim, family netip.Addr, w Wish) []Refusal {
	var refusals []Refusal
	for _, a := range w.Asked {
		outcome, holder := n.take(c, a)
		if outcome == alloc.Taken {
			return refusals
		}
		refusals = append(refusals, Refusal{Asked: a, Outcome: outcome, Holder: holder})
	}
	switch w.Otherwise {
	case Nothing:
		n.pools.Drop(c.owner, family)
	case Any:
		if cidr, may := n.rangeOf(c, family); may {
			if _, ok := n.pools.Next(c.owner, family); !ok {
				refusals = append(refusals, Refusal{Full: cidr})
			}
		}
	case Kept:
	}
	return refusals
}
