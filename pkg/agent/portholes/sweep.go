package portholes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// Tend follows changes of the cluster until ctx ends, whenever it is known whom portholes are for.
func (p *Portholes) Tend(ctx context.Context, known func() bool) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.World.Changed():
		}
		if !known() {
			continue
		}
		if err := p.Refresh(ctx, Trusting); err != nil && ctx.Err() == nil {
			p.Log.Warn("portholes do not follow a change of the cluster", "error", err)
			p.Soon()
		}
	}
}

// Refresh brings all portholes, and the node's side, to the newest state of the cluster.
func (p *Portholes) Refresh(ctx context.Context, how Care) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	defer p.Names.Refresh(ctx)
	return errors.Join(p.openHost(ctx), p.openPortholes(ctx, how))
}

// openPortholes brings the portholes of all Networks with guests to the state that their guests need, as far as there is time.
func (p *Portholes) openPortholes(ctx context.Context, how Care) error {
	var failed []error
	networks := p.guests.networks()
	for i, uid := range networks {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(failed, fmt.Errorf("%d of %d portholes not looked at: %w", len(networks)-i, len(networks), err))...)
		}
		if err := p.openPorthole(ctx, uid, how); err != nil {
			failed = append(failed, fmt.Errorf("open porthole of Network %s: %w", uid, err))
		}
	}
	return errors.Join(failed...)
}

// Sweep makes everything of portholes anew from the links of pods: what is missing or broken is mended, and what belongs to nobody is
// removed. The list may be of a moment ago: requests may have ended since.
func (p *Portholes) Sweep(ctx context.Context, links []netdev.Owned) error {
	if err := p.openHost(ctx); err != nil {
		return fmt.Errorf("open the node's side: %w", err)
	}
	if err := p.recount(links); err != nil {
		return err
	}
	defer p.Names.Refresh(ctx)
	return errors.Join(p.openPortholes(ctx, Doubting), p.removeStrays(ctx))
}

// recount brings the guests in line with links. A container with a request in flight is left alone.
func (p *Portholes) recount(links []netdev.Owned) error {
	linked := map[string]bool{}
	var failed error
	for _, l := range links {
		linked[l.ContainerID] = true
		p.Undisturbed(l.ContainerID, func() {
			// A link that has gone with its pod must not bring the guest back.
			if exists, err := netdev.Exists(l.HostName()); err != nil || !exists {
				failed = errors.Join(failed, err)
				return
			}
			p.recountOne(l.Owner)
		})
	}
	for container, guest := range p.guests.all() {
		if linked[container] {
			continue
		}
		p.Undisturbed(container, func() {
			// A link that came after the list was made.
			if exists, err := netdev.Exists(netdev.HostName(container, guest.iface)); err != nil || exists {
				failed = errors.Join(failed, err)
				return
			}
			p.guests.remove(container)
		})
	}
	return failed
}

// recountOne records the container of a link as a guest, if its living pod is one.
func (p *Portholes) recountOne(owner netdev.Owner) {
	key, n, lives, err := p.Attached(owner)
	if !lives {
		p.guests.remove(owner.ContainerID)
		return
	}
	if err == nil && len(n.Faces) > 0 {
		if err = p.World.Lacks(n); err == nil {
			p.guests.put(owner.ContainerID, owner.Interface, n)
			return
		}
	}
	if _, was := p.guests.remove(owner.ContainerID); was || err != nil {
		p.Log.Warn("pod has no porthole", "pod", key, "error", err)
	}
}

// removeStrays removes portholes and their ports that no guest needs.
func (p *Portholes) removeStrays(ctx context.Context) error {
	found, err := p.all(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range found {
		failed = append(failed, p.removeStray(ctx, id))
	}
	return errors.Join(failed...)
}

// all are the portholes of which anything is there, be it a port, sorted.
func (p *Portholes) all(ctx context.Context) ([]porthole.ID, error) {
	ids, err := p.Keeper.List()
	if err != nil {
		return nil, err
	}
	ports, err := p.Switch.Portholes(ctx)
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		if port.Porthole != ownPort {
			ids = append(ids, porthole.IDOf(port.Porthole))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// isStray reports whether a porthole is there that no guest needs. The caller has its turn.
func (p *Portholes) isStray(ctx context.Context, id porthole.ID) (bool, error) {
	// Its first guest may have come since.
	for _, uid := range p.guests.networks() {
		if porthole.IDOf(uid) == id {
			return false, nil
		}
	}
	_, plugged, err := p.Switch.Find(ctx, id.Name())
	if err != nil {
		return false, err
	}
	// And its last guest may have taken it along.
	exists, err := p.Keeper.Exists(id)
	return err == nil && (exists || plugged), err
}

func (p *Portholes) removeStray(ctx context.Context, id porthole.ID) error {
	release, err := p.turns.Acquire(ctx, string(id))
	if err != nil {
		return fmt.Errorf("wait for another change of the porthole: %w", err)
	}
	defer release()
	if stray, err := p.isStray(ctx, id); err != nil || !stray {
		return err
	}
	err = p.removePorthole(ctx, id)
	p.Swept(Swept, err)
	if err != nil {
		return fmt.Errorf("remove porthole %s: %w", id, err)
	}
	p.Log.Info("swept", "what", "porthole", "name", id.Name())
	return nil
}
