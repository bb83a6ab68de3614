package compile

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// SelectGroup is a group of Open vSwitch by which a Network's switches divide what begins: ovn-controller makes one of the
// backends of a virtual address, and two addresses with the same backends share it.
type SelectGroup struct {
	// LoadBalancerGroup is the UUID of the Network's load balancer group.
	LoadBalancerGroup string
	// Backends is the text of a virtual address' endpoints.
	Backends string
}

// SelectGroups are those that rows need.
//
// With session affinity there are some, too, but they need not outlive their address: there Open vSwitch chooses when it looks
// up flows, and not by a hash that it has the datapath take first. See RetainedBackends.
func SelectGroups(f nb.Facts) map[SelectGroup]struct{} {
	plain, of := map[string]bool{}, map[string]string{}
	for _, row := range f.Rows {
		if lb, ok := row.(*nb.LoadBalancer); ok && len(lb.SelectionFields) == 0 {
			plain[lb.UUID] = true
		}
	}
	for _, m := range f.Members {
		if m.Row.Table == nb.TableLoadBalancerGroup && plain[m.Value] {
			of[m.Value] = m.Row.UUID
		}
	}
	out := map[SelectGroup]struct{}{}
	for _, m := range f.Members {
		if group, ok := of[m.Row.UUID]; ok && m.IsMap() {
			if _, backends := nb.SplitPair(m.Value); backends != "" {
				out[SelectGroup{group, backends}] = struct{}{}
			}
		}
	}
	return out
}

// Retainable reports whether RetainedBackends takes a group: one of many backends costs as much again as the change that it outlives, and
// Open vSwitch divides by 256 values at most.
func (g SelectGroup) Retainable() bool { return strings.Count(g.Backends, ",") < maxBackends }

// RetainedBackends keeps groups that an owner's virtual addresses needed until now.
//
// When an endpoint comes or goes, ovn-controller makes a new group and deletes the old one together with the flow that led to
// it. Open vSwitch goes on for some milliseconds, under load for longer, to lead by what it has cached: a packet that begins a
// connection has its hash taken, comes back for the old group, does not find it, and is dropped. A client by TCP tries
// again after 1 s. So what was there before is kept for a while under an address that nobody has: one of loopback, or of the
// block for what is to be discarded (RFC 6666).
func RetainedBackends(owner nb.Owner, groups []SelectGroup) []nb.Member {
	var out []nb.Member
	for _, g := range groups {
		in := nb.Ref{Table: nb.TableLoadBalancer, UUID: retainUUID(g.LoadBalancerGroup)}
		out = append(out, in.Holds(nb.ColumnVips, nb.Pair(retainAddress(owner, g.Backends).String(), g.Backends)))
	}
	return out
}

// retainAddress is a key that no other retained group has.
func retainAddress(owner nb.Owner, backends string) netip.AddrPort {
	sum := sha256.Sum256([]byte(owner.String() + "\x00" + backends))
	port := binary.BigEndian.Uint16(sum[:2])%65535 + 1
	if strings.HasPrefix(backends, "[") {
		address := [16]byte{0: 0x01}
		copy(address[8:], sum[2:10])
		return netip.AddrPortFrom(netip.AddrFrom16(address), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, sum[2], sum[3], sum[4]}), port)
}

// retainLoadBalancer gives the load balancer of a Network's retained backends. It is there whether anything is in it or not: see
// drainLoadBalancer.
func retainLoadBalancer(l Layout) nb.Facts {
	group := groupRef(l)
	lb := &nb.LoadBalancer{
		UUID: retainUUID(group.UUID), Name: l.Name + ":former", ExternalIDs: idsOf(l),
		Options: map[string]string{"neighbor_responder": "none"},
	}
	return nb.Facts{Rows: []nb.Row{lb}, Members: []nb.Member{group.Holds(nb.ColumnLoadBalancers, lb.UUID)}}
}

func retainUUID(group string) string { return nb.UUID(nb.TableLoadBalancer, group+"/former") }
