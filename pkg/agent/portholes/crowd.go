package portholes

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// Source is who begins connections: an address in a Network. That of pods without faces, which have their node's own stack for a
// porthole, is empty.
type Source struct {
	NetworkUID string
	Address    netip.Addr
}

// Crowded are those of which connections past their Network were refused of late.
func (p *Portholes) Crowded() (map[Source]struct{}, error) {
	out := map[Source]struct{}{}
	var failed []error
	for _, network := range append(p.guests.networks(), "") {
		var id porthole.ID
		if network != "" {
			id = porthole.IDOf(network)
		}
		addresses, err := p.Keeper.Crowded(id)
		if err != nil {
			failed = append(failed, fmt.Errorf("read whose connections are refused: %w", err))
		}
		for _, address := range addresses {
			out[Source{network, address}] = struct{}{}
		}
	}
	return out, errors.Join(failed...)
}
