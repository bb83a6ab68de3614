package ipam

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// kindRouter is the kind of a holder that is the router of a subnet.
const kindRouter = "Router"

// Holding is an address and the object that holds it, as recorded on that object.
type Holding struct {
	Address netip.Addr
	use     api.PoolUse
	Owner   nb.Owner
	// subnet is the subnet that the address was allocated from, node the node of the holder.
	subnet, node string
	Since        time.Time
}

// Holdings are the holdings of each Network, by its name, as recorded on the holders. They are sorted by address. Faces are under
// ClusterPools.
type Holdings map[string][]Holding

// HoldingsOf returns which objects hold which addresses.
func HoldingsOf(h snapshot.Held) Holdings {
	out := Holdings{}
	for key, p := range h.Objects.Pods {
		for _, a := range p.Assigned {
			if n := h.Objects.Networks[a.Network]; n == nil || n.UID != a.NetworkUID {
				continue // The Network is gone: see checkGone.
			}
			for _, own := range a.Addresses {
				out.add(a.Network, Holding{own.Addr(), api.UseSubnet, ledger.Pod(key), a.Subnet, p.Node, p.Created})
			}
			for _, face := range a.Faces {
				out.add(api.ClusterPools, Holding{face, api.UseFaces, ledger.Pod(key), "", p.Node, p.Created})
			}
		}
	}
	for name, n := range h.Objects.Nodes {
		if n.Assigned != nil {
			for _, own := range n.Assigned.Addresses {
				out.add(n.Assigned.Network, Holding{own.Addr(), api.UseSubnet, nb.NodeOwner(name), "", name, n.Created})
			}
		}
	}
	for key, s := range h.Objects.Services {
		if s.Assigned == nil {
			continue
		}
		if n := h.Objects.Networks[s.Assigned.Network]; n != nil && n.UID == s.Assigned.NetworkUID {
			for _, a := range s.Assigned.Addresses {
				out.add(n.Name, Holding{a, api.UseServices, nb.ServiceOwner(key.Namespace, key.Name), "", "", s.Created})
			}
		}
	}
	addGateways(h, out)
	for name, n := range h.Objects.Networks {
		for _, r := range ServedBy(h, n) {
			if gateway, err := netip.ParseAddr(r.Gateway); err == nil {
				out.add(name, Holding{gateway, api.UseSubnet, nb.Owner{Kind: kindRouter, Name: h.RouterOf(n)}, r.Name, "", n.Created})
			}
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b Holding) int {
			return cmp.Or(a.Address.Compare(b.Address), a.Since.Compare(b.Since), a.Owner.Compare(b.Owner))
		})
	}
	return out
}

func (all Holdings) add(network string, h Holding) { all[network] = append(all[network], h) }

// ServedBy returns the subnet ranges that a Network serves according to its status.
func ServedBy(h snapshot.Held, n *model.Network) []atoll.SubnetStatus {
	shown, known := h.Status(n.Name, n.UID)
	if !known {
		return nil
	}
	return shown.Subnets
}

// list are what is known of addresses, of each Network and of the cluster as a whole, without holders, sorted by their names; the
// cluster is the last.
func list(h snapshot.Held) []api.IPAM {
	all := HoldingsOf(h)
	out := make([]api.IPAM, 0, len(h.Objects.Networks)+1)
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Networks)) {
		if h.Over() {
			break
		}
		out = append(out, ofNetwork(h, h.Objects.Networks[name], all))
	}
	return append(out, facePools(h, all, false))
}

// get is what is known of the addresses of one, with their holders; false when there is no such Network.
func get(h snapshot.Held, name string) (api.IPAM, bool) {
	all := HoldingsOf(h)
	var out api.IPAM
	if n := h.Objects.Networks[name]; n != nil {
		out = ofNetwork(h, n, all)
	} else if name == api.ClusterPools {
		out = facePools(h, all, true)
	} else {
		return out, false
	}
	for _, held := range all[name] {
		holder := api.Holder{
			Address: held.Address.String(), Use: held.use, Kind: string(held.Owner.Kind), Name: ObjectName(held.Owner), Node: held.node,
		}
		if !held.Since.IsZero() && held.Owner.Kind != kindRouter {
			holder.Since = &metav1.Time{Time: held.Since.UTC()}
		}
		out.Status.Holders = append(out.Status.Holders, holder)
	}
	return out, true
}

// ObjectName returns a holder's name, with its namespace if it has one.
func ObjectName(o nb.Owner) string {
	if o.Namespace != "" {
		return o.Namespace + "/" + o.Name
	}
	return o.Name
}

func emptyIPAM(name string) (out api.IPAM) {
	out.APIVersion, out.Kind, out.Name = api.GroupVersion().String(), "IPAM", name
	out.Status.Pools = []api.AddressPool{}
	return out
}

func ofNetwork(h snapshot.Held, n *model.Network, all Holdings) api.IPAM {
	out := emptyIPAM(n.Name)
	out.Status.Tenant = n.Tenant
	shown, _ := h.Status(n.Name, n.UID)
	for _, r := range shown.Subnets {
		out.Status.Pools = append(out.Status.Pools,
			withCounts(api.AddressPool{Use: api.UseSubnet, Name: r.Name, CIDR: r.CIDR, Gateway: r.Gateway}, r.Used, r.Free, all[n.Name]))
	}
	for _, r := range shown.ServiceCIDRs {
		out.Status.Pools = append(out.Status.Pools, withCounts(api.AddressPool{Use: api.UseServices, CIDR: r.CIDR}, r.Used, r.Free, all[n.Name]))
	}
	// What each Network has for itself is told where somebody has an address of it.
	for _, cidr := range h.Pools.Gateways {
		if !slices.ContainsFunc(all[n.Name], func(a Holding) bool { return a.use == api.UseGateways && cidr.Contains(a.Address) }) {
			continue
		}
		var reserved []model.AddrRange
		for _, other := range slices.Concat(h.Pools.Faces, h.Pools.Services, Prefixes(shown.Subnets)) {
			reserved = append(reserved, compile.AddrRangeOf(other))
		}
		if pool, err := ledger.NewPool(cidr, reserved); err == nil {
			out.Status.Pools = append(out.Status.Pools,
				withCounts(api.AddressPool{Use: api.UseGateways, CIDR: cidr.String()}, 0, pool.Free(), all[n.Name]))
		}
	}
	return out
}

// Prefixes returns the ranges of subnets.
func Prefixes(subnets []atoll.SubnetStatus) (out []netip.Prefix) {
	for _, s := range subnets {
		if p, err := netip.ParsePrefix(s.CIDR); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// facePools are the ranges of faces; with each node's blocks if these are wanted.
func facePools(h snapshot.Held, all Holdings, blocks bool) api.IPAM {
	out := emptyIPAM(api.ClusterPools)
	faces := all[api.ClusterPools]
	for _, cidr := range h.Pools.Faces {
		p := withCounts(api.AddressPool{Use: api.UseFaces, CIDR: cidr.String()}, 0, sizeOf(cidr), faces)
		for _, n := range h.Objects.Nodes {
			if n.Assigned != nil {
				for _, block := range n.Assigned.Faces {
					if cidr.Overlaps(block) {
						p.Blocks++
					}
				}
			}
		}
		out.Status.Pools = append(out.Status.Pools, p)
	}
	if !blocks {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Nodes)) {
		if n := h.Objects.Nodes[name]; n.Assigned != nil {
			for _, block := range n.Assigned.Faces {
				if pool, err := ledger.NewPool(block, nil); err == nil {
					out.Status.Pools = append(out.Status.Pools,
						withCounts(api.AddressPool{Use: api.UseBlock, Name: name, CIDR: block.String()}, 0, pool.Free(), faces))
				}
			}
		}
	}
	return out
}

// withCounts counts who has addresses of a pool. Somebody else counted that so many are used and free: what is neither, is reserved.
func withCounts(p api.AddressPool, used, free int64, held []Holding) api.AddressPool {
	cidr, err := netip.ParsePrefix(p.CIDR)
	if err != nil {
		p.Used, p.Free = used, free
		return p
	}
	p.Size = sizeOf(cidr)
	kinds := map[string]int64{}
	for _, a := range held {
		if cidr.Contains(a.Address) && a.Owner.Kind != kindRouter {
			kinds[string(a.Owner.Kind)]++
			p.Used++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		p.UsedBy = append(p.UsedBy, api.HolderCount{Kind: kind, Count: kinds[kind]})
	}
	p.Free = free
	if p.Size < alloc.MaxFree && free < alloc.MaxFree {
		reserved := max(0, p.Size-used-free)
		p.Reserved, p.Free = &reserved, max(0, p.Size-reserved-p.Used)
	}
	return p
}

// sizeOf returns the number of addresses in a range, at most alloc.MaxFree.
func sizeOf(cidr netip.Prefix) int64 {
	if bits := cidr.Addr().BitLen() - cidr.Bits(); bits < 53 {
		return 1 << bits
	}
	return alloc.MaxFree
}
