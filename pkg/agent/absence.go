package agent

import (
	"context"
	"time"
)

// What a Network's status says is its controller's last word. While none leads, somebody who is alive says that it is: the agents
// of a few nodes.

// lookForLeader is how often they look.
const lookForLeader = 2 * time.Second

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
		if !a.world.Speaks() {
			continue
		}
		problem, away := a.leader.without(ctx,
			"what the Network's status says was so then. Its pods keep their network, and nothing changes until one leads")
		if !away {
			continue
		}
		for _, n := range a.world.Networks() {
			teller.warnNetwork(ctx, n, problem)
		}
	}
}
