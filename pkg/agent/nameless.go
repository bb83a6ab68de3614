package agent

import (
	"context"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// tellNameless tells a pod that nobody answers for names on its node, because it is not known how.
func (a *Agent) tellNameless(ctx context.Context, p pod, n attachment.NIC) {
	if len(n.Faces) == 0 || !a.world.AsksNode(n.NetworkUID) || a.names != nil && a.world.HasDNS() {
		return
	}
	// It ends by itself, and the pod does not wait for it.
	go a.teller.warn(context.WithoutCancel(ctx), p.key, p.uid, model.Problemf(model.ReasonNamesNotServed,
		"nobody answers for names in Network %s on node %s: the AtollConfig has no address of the cluster's DNS (spec.dns.addresses), or the "+
			"node's atoll-agent does not know where names are served (--dns-socket); or give the Network another answerer (spec.dns)", n.Network,
		a.node))
}
