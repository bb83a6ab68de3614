package ipam

import (
	"net/netip"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// addGateways adds what Gateways hold.
func addGateways(h snapshot.Held, out Holdings) {
	for key, g := range h.Objects.Gateways {
		if h.Objects.Classes[g.Class] == nil {
			continue // It is somebody else's to serve.
		}
		network := h.SpaceOf(key.Namespace)
		for _, a := range g.Held {
			use := api.UseGateways
			if n := h.Objects.Networks[network]; n != nil &&
				slices.ContainsFunc(n.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
				use = api.UseServices
			}
			out.add(network, Holding{a, use, nb.GatewayOwner(key.Namespace, key.Name), "", "", g.Created})
		}
	}
}

// isGateway reports whether an owner is one.
func isGateway(o nb.Owner) bool { return o.Kind == nb.KindGateway }

// gatewayLives reports whether a Gateway is there, as far as anybody knows.
func gatewayLives(h snapshot.Held, o nb.Owner) bool {
	return h.Unread["gateways"] || h.Objects.Gateways[model.GatewayKey{Namespace: o.Namespace, Name: o.Name}] != nil
}
