package ovsdb

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
)

const tableEncap = "Encap"

// endsRow is a chassis with references to its encapsulations.
type endsRow struct {
	UUID     string   `ovsdb:"_uuid"`
	Name     string   `ovsdb:"name"`
	Hostname string   `ovsdb:"hostname"`
	Encaps   []string `ovsdb:"encaps"`
}

// encapRow is an encapsulation. Type and IP are an index of the table: libovsdb needs both.
type encapRow struct {
	UUID string `ovsdb:"_uuid"`
	Type string `ovsdb:"type"`
	IP   string `ovsdb:"ip"`
}

// TunnelEnds are the addresses at which a chassis says that it takes tunnels.
type TunnelEnds struct {
	// Name is the chassis', which OVN's role holds to the certificate of its node. Hostname is what the node says.
	Name, Hostname string
	// Addresses has an invalid one for a text that is no address.
	Addresses []netip.Addr
}

// Chassis are all chassis with their tunnel ends, by name.
func (s *Claims) Chassis() []TunnelEnds {
	encaps := s.encaps.RowsShallow()
	var out []TunnelEnds
	for _, r := range s.chassis.RowsShallow() {
		row := r.(*endsRow)
		ends := TunnelEnds{Name: row.Name, Hostname: row.Hostname}
		// Whose encapsulation it is says the chassis that refers to it: it may be a row of another's.
		for _, uuid := range row.Encaps {
			if encap, there := encaps[uuid].(*encapRow); there {
				ends.Addresses = append(ends.Addresses, tunnelAddress(encap.IP))
			}
		}
		out = append(out, ends)
	}
	slices.SortFunc(out, func(a, b TunnelEnds) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// tunnelAddress reads an address; it is invalid if the text is none.
func tunnelAddress(text string) netip.Addr {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}

// Delete deletes a chassis, as ChassisTable's does.
func (s *Claims) Delete(ctx context.Context, name string) error {
	return deleteChassis(ctx, s.client, name)
}
