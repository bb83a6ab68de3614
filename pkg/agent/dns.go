package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/porthole"
)

// namesPatience is how long a pod's start waits for its Network's names. A DNS program that is being replaced answers at once, one that
// was killed within a second or two. One that stays away keeps no pod from starting: not every pod asks for names.
const namesPatience = 5 * time.Second

// awaitNames returns when the pods of a porthole are answered, or it is no use to wait longer, and how long that took.
func (a *Agent) awaitNames(ctx context.Context, n nic) time.Duration {
	spec, err := a.world.porthole(n.networkUID)
	if a.names == nil || err != nil || len(spec.DNS) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, namesPatience)
	defer cancel()
	began := time.Now()
	if err := a.names.Serve(ctx, string(porthole.IDOf(n.networkUID))); err != nil {
		a.metrics.nameless.Inc()
		a.log.Warn("a pod starts before anybody answers for names in its Network", "network", n.network, "error", err)
	}
	return time.Since(began)
}

// tellNameless tells a pod that nobody answers for names on its node, because the node's agent was not told how.
func (a *Agent) tellNameless(ctx context.Context, p pod, n nic) {
	if len(n.faces) == 0 || !a.world.asksNode(n.networkUID) || a.names != nil && len(a.world.infra.DNS) > 0 {
		return
	}
	// It ends by itself, and the pod does not wait for it.
	go a.teller.warn(context.WithoutCancel(ctx), p.key, p.uid, model.Problem{
		Reason: model.ReasonNamesNotServed,
		Message: fmt.Sprintf("nobody answers for names in Network %s on node %s: its atoll-agent was told neither the cluster's DNS address (--cluster-dns) nor where names are served (--dns-socket); "+
			"or give the Network another answerer (spec.dns)", n.network, a.node),
	})
}

// refreshNames has the DNS program look at portholes that may have changed. It does so by itself, only later.
func (a *Agent) refreshNames(ctx context.Context) {
	if a.names == nil {
		return
	}
	if err := a.names.Look(ctx); err != nil {
		a.log.Debug("the DNS program was not told of a change", "error", err)
	}
}

// stopNames ends the server of a porthole that goes: its sockets would keep the namespace until the program sees by itself.
func (a *Agent) stopNames(ctx context.Context, id porthole.ID) {
	if a.names == nil {
		return
	}
	if err := a.names.Leave(ctx, string(id)); err != nil {
		a.log.Debug("the DNS program was not told of a porthole that goes", "porthole", id, "error", err)
	}
}
