package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// fabric is what all links to the bridge have in common.
func (a *Agent) fabric(ctx context.Context) (mtu int, offload netdev.Offload, err error) {
	userspace, err := a.ovs.Userspace(ctx)
	if err != nil {
		return 0, offload, err
	}
	if userspace {
		offload = netdev.PodChecksums
	}
	mtu, err = a.podMTU(ctx)
	return mtu, offload, err
}

func (a *Agent) podMTU(ctx context.Context) (int, error) {
	if a.mtu > 0 {
		return a.mtu, nil
	}
	text, err := a.ovs.EncapIP(ctx)
	if err != nil {
		return 0, err
	}
	encap, err := netip.ParseAddr(text)
	if err != nil {
		return 0, fmt.Errorf("read ovn-encap-ip: %w", err)
	}
	return netdev.TunnelMTU(encap.Unmap())
}
