package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/atoll-net/atoll/pkg/netdev"
	"github.com/atoll-net/atoll/pkg/porthole"
)

// tendPortholes follows changes of the cluster until ctx ends.
func (a *Agent) tendPortholes(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.world.changed:
		}
		// Before the first sweep nobody knows whom portholes are for.
		if !a.sweptOnce() || a.ready(ctx) != nil {
			continue
		}
		if err := a.refreshPortholes(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("portholes do not follow a change of the cluster", "error", err)
			a.sweepSoon()
		}
	}
}

// refreshPortholes brings all portholes, and the node's side, to the newest state of the cluster.
func (a *Agent) refreshPortholes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	defer a.refreshNames(ctx)
	return errors.Join(a.openHost(ctx), a.openPortholes(ctx, trusting))
}

// openPortholes brings the portholes of all Networks with guests to the state that their guests need, as far as there is time.
func (a *Agent) openPortholes(ctx context.Context, how care) error {
	var failed []error
	networks := a.guests.networks()
	for i, uid := range networks {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(failed, fmt.Errorf("%d of %d portholes not looked at: %w", len(networks)-i, len(networks), err))...)
		}
		if err := a.openPorthole(ctx, uid, how); err != nil {
			failed = append(failed, fmt.Errorf("open porthole of Network %s: %w", uid, err))
		}
	}
	return errors.Join(failed...)
}

// sweepPortholes makes everything of portholes anew from links and pods: what is missing or broken is mended, and what
// belongs to nobody is removed.
func (a *Agent) sweepPortholes(ctx context.Context) error {
	if err := a.openHost(ctx); err != nil {
		return fmt.Errorf("open the node's side: %w", err)
	}
	if err := a.recount(); err != nil {
		return err
	}
	defer a.refreshNames(ctx)
	return errors.Join(a.openPortholes(ctx, doubting), a.removeStrays(ctx))
}

// recount brings the guests in line with the links of pods. A container with a request in flight is left alone.
func (a *Agent) recount() error {
	links, err := netdev.List()
	if err != nil {
		return err
	}
	return a.recountBy(links)
}

// recountBy is recount by a list of links, which may be of a moment ago: requests may have ended since.
func (a *Agent) recountBy(links []netdev.Owned) error {
	linked := map[string]bool{}
	var failed error
	for _, l := range links {
		linked[l.ContainerID] = true
		a.undisturbed(l.ContainerID, func() {
			// A link that has gone with its pod must not bring the guest back.
			if exists, err := netdev.Exists(l.HostName()); err != nil || !exists {
				failed = errors.Join(failed, err)
				return
			}
			a.recountOne(l.Owner)
		})
	}
	for container, guest := range a.guests.all() {
		if linked[container] {
			continue
		}
		a.undisturbed(container, func() {
			// A link that came after the list was made.
			if exists, err := netdev.Exists(netdev.HostName(container, guest.iface)); err != nil || exists {
				failed = errors.Join(failed, err)
				return
			}
			a.guests.remove(container)
		})
	}
	return failed
}

// recountOne records the container of a link as a guest, if its living pod is one.
func (a *Agent) recountOne(owner netdev.Owner) {
	p, lives := a.pods.getByUID(owner.PodUID)
	if !lives {
		a.guests.remove(owner.ContainerID)
		return
	}
	n, err := parseAttachment(p.attachments, p.uid, owner.Interface)
	if err == nil && len(n.faces) > 0 {
		if err = a.world.lacks(n); err == nil {
			a.guests.put(owner.ContainerID, owner.Interface, n)
			return
		}
	}
	if _, was := a.guests.remove(owner.ContainerID); was || err != nil {
		a.log.Warn("pod has no porthole", "pod", p.key, "error", err)
	}
}

// undisturbed does something unless a request for the container is in flight.
func (a *Agent) undisturbed(container string, do func()) {
	if release, free := a.locks.try(container); free {
		defer release()
		do()
	}
}

// removeStrays removes portholes and their ports that no guest needs.
func (a *Agent) removeStrays(ctx context.Context) error {
	ids, err := a.keeper.List()
	if err != nil {
		return err
	}
	found := map[porthole.ID]bool{}
	for _, id := range ids {
		found[id] = true
	}
	ports, err := a.ovs.Portholes(ctx)
	if err != nil {
		return err
	}
	for _, port := range ports {
		if port.Porthole != ownPort {
			found[porthole.IDOf(port.Porthole)] = true
		}
	}
	var failed []error
	for id := range found {
		failed = append(failed, a.removeStray(ctx, id))
	}
	return errors.Join(failed...)
}

func (a *Agent) removeStray(ctx context.Context, id porthole.ID) error {
	release, err := a.turns.acquire(ctx, string(id))
	if err != nil {
		return fmt.Errorf("wait for another change of the porthole: %w", err)
	}
	defer release()
	// Its first guest may have come since.
	for _, uid := range a.guests.networks() {
		if porthole.IDOf(uid) == id {
			return nil
		}
	}
	_, plugged, err := a.ovs.Find(ctx, id.Name())
	if err != nil {
		return err
	}
	// And its last guest may have taken it along.
	if exists, err := a.keeper.Exists(id); err != nil || !exists && !plugged {
		return err
	}
	err = a.removePorthole(ctx, id)
	a.metrics.swept("porthole", err)
	if err != nil {
		return fmt.Errorf("remove porthole %s: %w", id, err)
	}
	a.log.Info("swept", "what", "porthole", "name", id.Name())
	return nil
}
