package alloc

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Ranges gives each owner at most one address of each IP family, out of the range of that family. Not safe for
// concurrent use.
type Ranges[H comparable] struct {
	// pools are at most one per IP family, IPv4 first.
	pools []*Pool[H]
	// held are the addresses of each owner, in the order of the pools.
	held map[H][]netip.Addr
}

// NewRanges makes the pools of ranges, at most one per IP family, without what is reserved.
func NewRanges[H comparable](ranges []netip.Prefix, reserved ...model.AddrRange) (*Ranges[H], error) {
	r := &Ranges[H]{held: map[H][]netip.Addr{}}
	for _, prefix := range ranges {
		if r.pool(prefix.Addr()) != nil {
			return nil, fmt.Errorf("%s is a second range of its IP family", prefix)
		}
		pool, err := New[H](prefix, reserved)
		if err != nil {
			return nil, err
		}
		r.pools = append(r.pools, pool)
	}
	slices.SortFunc(r.pools, func(a, b *Pool[H]) int { return a.prefix.Addr().Compare(b.prefix.Addr()) })
	return r, nil
}

// Pools are those of the ranges, IPv4 first, to count by. The caller does not change them.
func (r *Ranges[H]) Pools() []*Pool[H] { return r.pools }

// Range is the range of an address' IP family; false when there is none.
func (r *Ranges[H]) Range(like netip.Addr) (netip.Prefix, bool) {
	if p := r.pool(like); p != nil {
		return p.prefix, true
	}
	return netip.Prefix{}, false
}

// Held are an owner's addresses, IPv4 first. The caller does not change them.
func (r *Ranges[H]) Held(owner H) []netip.Addr { return r.held[owner] }

// Owners are those that hold addresses, in no order.
func (r *Ranges[H]) Owners() []H {
	out := make([]H, 0, len(r.held))
	for owner := range r.held {
		out = append(out, owner)
	}
	return out
}

// Take gives one address to an owner if it can be had, in place of the one of its IP family that the owner has. When it
// is InUse, the other owner is returned.
func (r *Ranges[H]) Take(owner H, a netip.Addr) (outcome Outcome, other H) {
	p := r.pool(a)
	if p == nil {
		return Outside, other
	}
	outcome, other = p.Take(a, owner)
	if outcome == Taken && !slices.Contains(r.held[owner], a) {
		r.Drop(owner, a)
		r.hold(owner, a)
	}
	return outcome, other
}

// Next gives an owner that has no address of the IP family of like the next free one. It returns the one that the owner
// has then; false when there is none.
func (r *Ranges[H]) Next(owner H, like netip.Addr) (netip.Addr, bool) {
	if i := r.index(owner, like); i >= 0 {
		return r.held[owner][i], true
	}
	p := r.pool(like)
	if p == nil {
		return netip.Addr{}, false
	}
	a, ok := p.Next(owner)
	if ok {
		r.hold(owner, a)
	}
	return a, ok
}

// Drop ends an owner's hold on its address of the IP family of like; it is nothing when there is none.
func (r *Ranges[H]) Drop(owner H, like netip.Addr) {
	i := r.index(owner, like)
	if i < 0 {
		return
	}
	have := r.held[owner]
	r.pool(like).Release(have[i], owner)
	// The list may be in the hands of somebody who was given it.
	if r.held[owner] = slices.Concat(have[:i], have[i+1:]); len(r.held[owner]) == 0 {
		delete(r.held, owner)
	}
}

// Release ends an owner's hold on all its addresses.
func (r *Ranges[H]) Release(owner H) {
	for _, a := range r.held[owner] {
		r.pool(a).Release(a, owner)
	}
	delete(r.held, owner)
}

func (r *Ranges[H]) hold(owner H, a netip.Addr) {
	all := append(slices.Clone(r.held[owner]), a)
	slices.SortFunc(all, netip.Addr.Compare)
	r.held[owner] = all
}

// index is the place of an owner's address of the IP family of like; negative when there is none.
func (r *Ranges[H]) index(owner H, like netip.Addr) int {
	return slices.IndexFunc(r.held[owner], func(a netip.Addr) bool { return a.Is4() == like.Is4() })
}

func (r *Ranges[H]) pool(like netip.Addr) *Pool[H] {
	for _, p := range r.pools {
		if p.prefix.Addr().Is4() == like.Is4() {
			return p
		}
	}
	return nil
}
