package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

const (
	sweepEvery   = time.Minute
	sweepTimeout = 30 * time.Second
	// sweepTurn is the key of the lock for sweeping; no container's ID is it.
	sweepTurn = "sweep"
)

// sweepForever sweeps at the start, every minute, and whenever the database may hold less than before. It
// ends with ctx.
func (a *Agent) sweepForever(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for first, said := true, ""; ; {
		a.world.Expire(time.Now())
		err := a.ready(ctx)
		if err == nil {
			err = a.sweep(ctx)
			if first {
				first = false
				close(a.swept)
			}
		}
		// Each reason is said once: while the agent starts, it is woken for each kind that has been read.
		wrong := ""
		if err != nil {
			wrong = err.Error()
		}
		if wrong != "" && wrong != said && ctx.Err() == nil {
			a.log.Warn("sweep not complete", "error", err)
		}
		said = wrong
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-a.nudge:
		case <-a.ovs.Changed():
		}
	}
}

// sweepSoon asks for a sweep before its time.
func (a *Agent) sweepSoon() { a.nudge.Send() }

// sweep removes what crashes left behind, gives back to the bridge the ports of living pods that the
// database has lost, and puts right those that say something else. It does nothing before both pods and database have been read.
func (a *Agent) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := a.ready(ctx); err != nil {
		return err
	}
	release, err := a.locks.Acquire(ctx, sweepTurn)
	if err != nil {
		return fmt.Errorf("wait for another sweep: %w", err)
	}
	defer release()
	seen, err := a.inventory(ctx)
	if err != nil {
		return err
	}
	found := seen.leftovers()
	// Somebody may have flushed the node's rules.
	failed := []error{netdev.Guard()}
	for _, p := range found.ports {
		failed = append(failed, a.tidy(sweptPort, netdev.Owner{ContainerID: p.Sandbox, Interface: p.Interface},
			func() (bool, error) { return a.dropPort(ctx, p) }))
	}
	for _, owner := range found.links {
		failed = append(failed, a.tidy(sweptLink, owner, func() (bool, error) { return a.dropLink(ctx, owner) }))
	}
	for _, owner := range found.lost {
		failed = append(failed, a.tidy(sweptLostPort, owner, func() (bool, error) { return a.restorePort(ctx, owner) }))
	}
	for _, owner := range found.changed {
		failed = append(failed, a.tidy(sweptChangedPort, owner, func() (bool, error) { return a.mendPort(ctx, owner) }))
	}
	for _, p := range found.twins {
		failed = append(failed, a.tidy(sweptPort, netdev.Owner{ContainerID: p.Sandbox, Interface: p.Interface},
			func() (bool, error) { return a.dropTwin(ctx, p) }))
	}
	failed = append(failed, a.portholes.Sweep(ctx, seen.links), a.keepThrottle(ctx))
	return errors.Join(failed...)
}

// inventory is all that is ours on the node.
func (a *Agent) inventory(ctx context.Context) (inventory, error) {
	links, err := netdev.List()
	if err != nil {
		return inventory{}, err
	}
	ports, err := a.ovs.List(ctx)
	return inventory{ports: ports, links: links, netnsGone: netdev.NetnsGone, podOf: a.pods.getByUID, wanted: a.wantedPort}, err
}

// wantedPort is the port that the link of a living pod should have.
func (a *Agent) wantedPort(owner netdev.Owner) (vswitch.Port, bool) {
	p, lives := a.pods.getByUID(owner.PodUID)
	// Without the controller's word the port only lacks what people read of it.
	nic, err := attachment.Parse(p.attachments, p.uid, owner.Interface)
	if err != nil && lives {
		a.log.Debug("attachment of a port not readable", "pod", p.key, "error", err)
	}
	return portFor(owner, p, nic), lives
}

// tidy runs one repair, unless a request for the container is in flight: the next sweep will look again.
func (a *Agent) tidy(what string, owner netdev.Owner, repair func() (done bool, err error)) error {
	release, free := a.locks.Try(owner.ContainerID)
	if !free {
		return nil
	}
	defer release()
	done, err := repair()
	if err != nil {
		a.metrics.swept(what, err)
		return fmt.Errorf("%s of container %s: %w", what, owner.ContainerID, err)
	}
	if done {
		a.metrics.swept(what, nil)
		a.log.Info("swept", "what", what, "container", owner.ContainerID, "name", owner.HostName())
	}
	return nil
}

// dropPort removes a port whose pod has gone. The repairs look again, since they now hold the container's lock.
func (a *Agent) dropPort(ctx context.Context, p vswitch.Port) (bool, error) {
	linked, err := netdev.Exists(p.Name)
	if err != nil || linked || !netdev.NetnsGone(p.Netns) {
		return false, err
	}
	return true, a.ovs.Detach(ctx, p)
}

// dropLink removes a link that has no port and that its pod does not need.
func (a *Agent) dropLink(ctx context.Context, owner netdev.Owner) (bool, error) {
	_, plugged, err := a.ovs.Find(ctx, owner.HostName())
	if err != nil || plugged {
		return false, err
	}
	return true, netdev.Delete(owner)
}

// restorePort attaches a living pod's link anew. After a restart with an empty database all pods of the node
// come back this way.
func (a *Agent) restorePort(ctx context.Context, owner netdev.Owner) (bool, error) {
	want, lives := a.wantedPort(owner)
	linked, err := netdev.Exists(want.Name)
	if err != nil || !lives || !linked {
		return false, err
	}
	if bound, err := a.ovs.Bound(ctx, want.IfaceID); err != nil || len(bound) > 0 {
		return false, err
	}
	if held, err := a.ovs.Held(ctx, want); err != nil {
		return false, err
	} else if held {
		// Its interface does not say any more whose it is.
		return true, a.ovs.Mend(ctx, want)
	}
	return true, a.ovs.Attach(ctx, want)
}

// mendPort has the port of a living pod's link say what it should.
func (a *Agent) mendPort(ctx context.Context, owner netdev.Owner) (bool, error) {
	want, lives := a.wantedPort(owner)
	linked, err := netdev.Exists(want.Name)
	if err != nil || !lives || !linked {
		return false, err
	}
	port, found, err := a.ovs.Find(ctx, want.Name)
	if err != nil || !found {
		return false, err
	}
	if should, _ := port.Unlike(want); len(should) == 0 {
		return false, nil
	}
	return true, a.ovs.Mend(ctx, want)
}

// dropTwin removes a port of an older link of an interface, if another one is bound.
func (a *Agent) dropTwin(ctx context.Context, p vswitch.Port) (bool, error) {
	key, lives := a.pods.getByUID(p.IfaceIDVer)
	if !lives {
		return false, nil
	}
	bound, err := a.ovs.Bound(ctx, key.attachment(p.Interface).PortName())
	if err != nil || !slices.ContainsFunc(bound, func(other vswitch.Port) bool { return other.Name != p.Name }) {
		return false, err
	}
	return true, a.ovs.Detach(ctx, p)
}
