package agent

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
)

// What a Network's status says is its controller's last word. While none leads, somebody who is alive says that it is: the agents of a few nodes.

const (
	// speakers is how many nodes' agents do.
	speakers = 3
	// lookForLeader is how often they look.
	lookForLeader = 2 * time.Second
)

// tellOfAbsence tells all Networks when no controller leads, again and again until one does. It ends with ctx.
func (a *Agent) tellOfAbsence(ctx context.Context, teller *teller) error {
	ticker := time.NewTicker(lookForLeader)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !a.world.speaks() {
			continue
		}
		problem, away := a.leader.without(ctx, "what the Network's status says was so then. Its pods keep their network, and nothing changes until one leads")
		if !away {
			continue
		}
		for _, n := range a.world.allNetworks() {
			teller.warnNetwork(ctx, n, problem)
		}
	}
}

// speaks reports whether this node is one of those that speak for the controller: the first by a hash of their names, so that they are not
// neighbours.
func (w *world) speaks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	rank := func(name string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(name))
		return h.Sum64()
	}
	before := 0
	for name := range w.nodes {
		if name != w.self && cmp.Or(cmp.Compare(rank(name), rank(w.self)), cmp.Compare(name, w.self)) < 0 {
			before++
		}
	}
	return w.nodes[w.self] != nil && before < speakers
}

// allNetworks are those of the cluster, by name.
func (w *world) allNetworks() []*model.Network {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.networks), func(a, b *model.Network) int { return cmp.Compare(a.Name, b.Name) })
}
