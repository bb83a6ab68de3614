package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
)

// cluster is what of the settings decides what a Network serves.
func (i Infrastructure) cluster() compile.Cluster {
	return compile.Cluster{DefaultSubnet: i.DefaultSubnet, Services: i.Services}
}

// inside is what a pod's interface needs because its Network has chosen addresses that the infrastructure has, too.
type inside struct {
	// faces are those that nobody in the Network has for its own: the others are a neighbour's there.
	faces []netip.Addr
	// beyond are ranges that would be on the pod's own link, and are asked of its router: pods of every Network dial them.
	beyond []netip.Prefix
}

// insideOf waits for the Network of an interface with faces; one without has nothing to do with the infrastructure.
func (a *Agent) insideOf(ctx context.Context, n nic) (inside, error) {
	if len(n.faces) == 0 {
		return inside{}, nil
	}
	if err := a.world.await(ctx, n); err != nil {
		return inside{}, err
	}
	return a.world.inside(n)
}

func (w *world) inside(n nic) (inside, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	network := w.networks[n.networkUID]
	if network == nil {
		return inside{}, fmt.Errorf("read Network %s: %w", n.network, errNoNetwork)
	}
	layout, _ := compile.Plan(*network, w.infra.cluster())
	dialled := slices.Clone(w.infra.Services)
	for _, address := range w.infra.DNS {
		dialled = append(dialled, netip.PrefixFrom(address, address.BitLen()))
	}
	for _, api := range w.api {
		dialled = append(dialled, netip.PrefixFrom(api.Addr(), api.Addr().BitLen()))
	}
	out := inside{faces: slices.DeleteFunc(slices.Clone(n.faces), layout.Means)}
	for _, address := range n.addresses {
		out.beyond = append(out.beyond, beyond(address.Masked(), dialled)...)
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
