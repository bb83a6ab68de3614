// Package mirror turns EndpointSlices, in which Kubernetes has the faces of pods, into what each Network has of them:
// the same endpoints with the pods' own addresses.
//
// In go a slice and where its pods are; out come Mirrors, one per Network. An endpoint is in the mirror of one Network at
// most, and in none when it is not known where it is: nobody is told an address that may be another pod's.
package mirror

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Place is where an endpoint is: its own address in a Network.
type Place struct {
	Network string
	Address netip.Addr
	// Faces: pods of other Networks reach this one's by their faces, and are told of them.
	Faces bool
}

// Of gives the mirrors of a slice, sorted by Network. place tells where an endpoint is; false when nowhere that is
// mirrored.
func Of(slice model.Slice, place func(model.Endpoint) (Place, bool)) []model.Mirror {
	in := map[string][]model.Endpoint{}
	faces := map[string]map[netip.Addr]netip.Addr{}
	for _, e := range slice.Endpoints {
		at, there := place(e)
		if !there || at.Address.Is4() != e.Address.Is4() {
			continue
		}
		// What is no pod's has the same address for all, and no face.
		if at.Faces && e.Address != at.Address {
			if faces[at.Network] == nil {
				faces[at.Network] = map[netip.Addr]netip.Addr{}
			}
			faces[at.Network][at.Address] = e.Address
		}
		e.Address = at.Address
		in[at.Network] = append(in[at.Network], e)
	}
	var out []model.Mirror
	for _, network := range slices.Sorted(maps.Keys(in)) {
		out = append(out, model.Mirror{
			Network: network, Source: slice.Key, SourceUID: slice.UID, Service: slice.Service,
			Ports: slice.Ports, Endpoints: in[network], Faces: faces[network],
		})
	}
	return out
}
