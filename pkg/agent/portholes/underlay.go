package portholes

import (
	"context"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// FollowUnderlay tells the world what OVN's tunnels and databases are, whenever that changes. It ends with ctx.
func (p *Portholes) FollowUnderlay(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Switch.Rewired():
		}
		if err := p.readUnderlay(ctx); err != nil && ctx.Err() == nil {
			// With the connection to the database, which is made again, comes another value.
			p.Log.Warn("tunnels not read", "error", err)
		}
	}
}

// readUnderlay reads what OVN's tunnels and databases are.
func (p *Portholes) readUnderlay(ctx context.Context) error {
	u, err := p.Switch.Underlay(ctx)
	if err != nil {
		return err
	}
	u.Southbound = append(u.Southbound, p.Southbound()...)
	slices.SortFunc(u.Southbound, netip.AddrPort.Compare)
	u.Southbound = slices.Compact(u.Southbound)
	links := map[netip.Addr]string{}
	for _, own := range u.Own {
		link, err := netdev.Holder(own)
		if err != nil {
			return err
		}
		links[own] = link
	}
	p.World.SetUnderlay(u, links)
	return nil
}
