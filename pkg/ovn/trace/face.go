package trace

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// place is an address in a Network.
type place struct {
	network string
	own     netip.Addr
}

// addFaces takes in the pairs of a load balancer without ports: those by which a Network leads faces to its pods. What it offers
// to others leads the other way.
func (db *Database) addFaces(lb *nb.LoadBalancer) {
	if owner, _ := nb.ParseOwner(lb.ExternalIDs[nb.KeyOwner]); owner.Kind == nb.KindOffer {
		return
	}
	for face, to := range lb.Vips {
		from, err := netip.ParseAddr(face)
		own, err2 := netip.ParseAddr(to)
		if err == nil && err2 == nil {
			db.faces[from] = place{lb.ExternalIDs[nb.KeyNetwork], own}
		}
	}
}

// Faces are the addresses by which other Networks know the pod of a port, sorted; none where it has none, or its Network has them itself.
func (db *Database) Faces(port *nb.LogicalSwitchPort) []netip.Addr {
	var out []netip.Addr
	own := Addresses(port)
	for face, at := range db.faces {
		if at.network == port.ExternalIDs[nb.KeyNetwork] && slices.Contains(own, at.own) {
			out = append(out, face)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// WithFace finds the port of the pod with a face, and its own address of that family; nil when nobody has it.
func (db *Database) WithFace(face netip.Addr) (port *nb.LogicalSwitchPort, own netip.Addr) {
	at, known := db.faces[face]
	if !known {
		return nil, netip.Addr{}
	}
	return db.At(at.network, at.own), at.own
}

// Holds reports whether an address set of a Network, which is called that, holds an address.
func (db *Database) Holds(network, set string, a netip.Addr) bool {
	for _, row := range db.written {
		if row.ExternalIDs[nb.KeyNetwork] == network && row.ExternalIDs[nb.KeySelector] == set && slices.Contains(row.Addresses, a.String()) {
			return true
		}
	}
	return false
}
