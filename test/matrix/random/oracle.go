package random

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Placed is a pod with what the cluster gave it.
type Placed struct {
	Pod
	UID string
	// Own are its addresses in its Network, Faces those that Kubernetes knows it by; in the default Network they are the same.
	Own, Faces []netip.Addr
}

// String is the pod as users write it.
func (p Placed) String() string { return p.Namespace + "/" + p.Name }

// Served is a Network's Service web: its own pods are behind it.
type Served struct {
	Network   string
	ClusterIP []netip.Addr
}

// Way is how a path is meant.
type Way string

// The ways from a pod to another.
const (
	ByAddress Way = "own address"
	ByFace    Way = "face"
	ByService Way = "Service"
)

// Path is one probe, and what must become of it.
type Path struct {
	// From indexes the placed pods.
	From int
	Way  Way
	// To is who is meant, for the report.
	To       string
	Address  netip.Addr
	Protocol wire.Protocol
	// Port for TCP and UDP; 0 means wire.DefaultPort.
	Port uint16
	// May are the UIDs of those of whom one has to answer; where there are none, nobody may.
	May []string
	// Open: nobody has to. It may lead to others, too, to whom it does not get.
	Open bool
}

// String is the path in words.
func (p Path) String(placed []Placed) string {
	return fmt.Sprintf("%s (%s) to %s by %s %s, %s", placed[p.From], placed[p.From].Network, p.To, p.Way, p.Address, p.Protocol)
}

// Paths are all paths among the pods, and to the Services, each with what must become of it.
func Paths(placed []Placed, services []Served) []Path {
	var out []Path
	add := func(from int, way Way, to string, address netip.Addr, may []string, protocols ...wire.Protocol) {
		for _, protocol := range protocols {
			out = append(out, Path{From: from, Way: way, To: to, Address: address, Protocol: protocol, May: may})
		}
	}
	for i, from := range placed {
		if len(from.Own) == 0 {
			continue
		}
		for j, to := range placed {
			if i == j {
				continue
			}
			for _, a := range to.Own {
				if !speaks(from, a) {
					continue
				}
				add(i, ByAddress, to.String(), a, byAddress(placed, from, a), wire.TCP, [...]wire.Protocol{wire.UDP, wire.ICMP}[(i+j)%2])
			}
			if to.Network == Default {
				continue // its own address is all that it has
			}
			for _, a := range to.Faces {
				if speaks(from, a) {
					add(i, ByFace, to.String(), a, byFace(from, to), wire.TCP)
				}
			}
		}
		for _, s := range services {
			for _, a := range s.ClusterIP {
				if speaks(from, a) {
					add(i, ByService, "Service "+s.Network+"/web", a, byService(placed, from, s, a), wire.TCP, wire.UDP)
				}
			}
		}
	}
	return out
}

// speaks: a pod has an address of that family, without which it neither sends nor is reached.
func speaks(p Placed, address netip.Addr) bool {
	return slices.ContainsFunc(p.Own, func(a netip.Addr) bool { return a.Is4() == address.Is4() })
}

// byAddress: an address means who has it in the sender's own Network, and nobody where none has: not the pod of another
// Network that has it, and not one of the default Network, which is closed to all others.
func byAddress(placed []Placed, from Placed, a netip.Addr) []string {
	for _, p := range placed {
		if p.Network == from.Network && slices.Contains(p.Own, a) {
			return []string{p.UID}
		}
	}
	return nil
}

// byFace: a pod's face is the pod for its own Network and for infrastructure, and closed for all others.
func byFace(from, to Placed) []string {
	if from.Network == to.Network || from.Namespace == Infra {
		return []string{to.UID}
	}
	return nil
}

// byService: a Service is known to its own Network; whoever may dial faces reaches it by kube-proxy. At an address of a family
// that none of its pods has, it has nobody to answer.
func byService(placed []Placed, from Placed, s Served, a netip.Addr) []string {
	if from.Network != s.Network && from.Namespace != Infra {
		return nil
	}
	var behind []string
	for _, p := range placed {
		if p.Network == s.Network && speaks(p, a) {
			behind = append(behind, p.UID)
		}
	}
	return behind
}
