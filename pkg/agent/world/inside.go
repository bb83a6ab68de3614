package world

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// cluster is what of the settings decides what a Network serves.
func (i Infrastructure) cluster() compile.Cluster {
	return compile.Cluster{DefaultSubnet: i.DefaultSubnet, Services: i.Services}
}

// Inside is what a pod's interface needs because its Network has chosen addresses that the infrastructure has, too.
type Inside struct {
	// Faces are those that nobody in the Network has for its own: the others are a neighbour's there.
	Faces []netip.Addr
	// Beyond are ranges that would be on the pod's own link, and are asked of its router: pods of every Network dial them.
	Beyond []netip.Prefix
}

// Inside is what an interface needs of its Network, which it waits for. One without faces has nothing to do with the infrastructure.
func (w *World) Inside(ctx context.Context, n attachment.NIC) (Inside, error) {
	if len(n.Faces) == 0 {
		return Inside{}, nil
	}
	if err := w.Await(ctx, n); err != nil {
		return Inside{}, err
	}
	return w.inside(n)
}

func (w *World) inside(n attachment.NIC) (Inside, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	network := w.networks[n.NetworkUID]
	if network == nil {
		return Inside{}, fmt.Errorf("read Network %s: %w", n.Network, ErrNoNetwork)
	}
	layout, _ := compile.Plan(*network, w.infra.cluster())
	dialled := slices.Clone(w.infra.Services)
	for _, address := range w.infra.DNS {
		dialled = append(dialled, netip.PrefixFrom(address, address.BitLen()))
	}
	for _, api := range w.api {
		dialled = append(dialled, netip.PrefixFrom(api.Addr(), api.Addr().BitLen()))
	}
	out := Inside{Faces: slices.DeleteFunc(slices.Clone(n.Faces), layout.Means)}
	for _, address := range n.Addresses {
		out.Beyond = append(out.Beyond, beyond(address.Masked(), dialled)...)
	}
	return out, nil
}

// beyond are the parts of a link's range that lie in others. A range that holds the whole link's becomes two halves of that: a
// route to them is longer than the link's own.
func beyond(link netip.Prefix, others []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, other := range others {
		switch other = other.Masked(); {
		case !other.Overlaps(link):
		case other.Bits() > link.Bits():
			out = append(out, other)
		case !link.IsSingleIP():
			lower := netip.PrefixFrom(link.Addr(), link.Bits()+1)
			upper := netip.PrefixFrom(compile.AddrRangeOf(lower).Last.Next(), link.Bits()+1)
			return []netip.Prefix{lower, upper}
		}
	}
	// The wider come first: what lies in one of them needs no route of its own.
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(a.Bits(), b.Bits()), a.Addr().Compare(b.Addr()))
	})
	var widest []netip.Prefix
	for _, p := range out {
		if !contains(widest, p.Addr()) {
			widest = append(widest, p)
		}
	}
	return widest
}
