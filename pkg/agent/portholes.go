package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/netdev"
	"github.com/atoll-net/atoll/pkg/porthole"
	"github.com/atoll-net/atoll/pkg/vswitch"
)

// care is how much is looked at when a porthole is made what it should be.
type care int

const (
	// trusting takes what was made before for what is there.
	trusting care = iota
	// doubting looks at everything that somebody else may have changed.
	doubting
)

// hostTurn is the key of the lock for the node's own side; no porthole's ID has this form.
const hostTurn = "host"

// makeTurn is the key of the lock for making portholes: one after the other. They would only be in each other's way, at the
// processors and at the kernel's lock of all links, where each of them takes many turns.
const makeTurn = "make"

// admit makes the porthole of a container's Network, or adds the container's pod to it, before anybody can know its face.
// A pod without faces needs none.
func (a *Agent) admit(ctx context.Context, container, iface string, n nic) error {
	if len(n.faces) == 0 {
		return nil
	}
	if err := a.world.await(ctx, n); err != nil {
		return err
	}
	a.guests.put(container, iface, n)
	_, known := a.keeper.Pods(porthole.IDOf(n.networkUID))
	err := a.openPorthole(ctx, n.networkUID, trusting)
	if doors, _ := a.guests.of(n.networkUID); err == nil {
		for _, door := range n.doors() {
			if !slices.Contains(doors, door) {
				err = fmt.Errorf("face %s or address %s is another pod's on this node", door.Face, door.Own)
			}
		}
	}
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		return errors.Join(fmt.Errorf("open porthole of Network %s: %w", n.network, err), a.leave(late, container))
	}
	if took := a.awaitNames(ctx, n); !known {
		a.metrics.step(stepNames, took)
	}
	return nil
}

// leave takes a container's pod out of its porthole, and removes the porthole with its last pod.
func (a *Agent) leave(ctx context.Context, container string) error {
	g, was := a.guests.remove(container)
	if !was {
		return nil
	}
	if err := a.openPorthole(ctx, g.networkUID, trusting); err != nil {
		// Whoever asked may not ask again.
		a.sweepSoon()
		return fmt.Errorf("close porthole: %w", err)
	}
	return nil
}

// openPorthole brings a Network's porthole to the state that its guests need. Without guests, or without its Network, there
// is none.
func (a *Agent) openPorthole(ctx context.Context, networkUID string, how care) error {
	id := porthole.IDOf(networkUID)
	release, err := a.turns.acquire(ctx, string(id))
	if err != nil {
		return fmt.Errorf("wait for another change of the porthole: %w", err)
	}
	defer release()
	began := time.Now()
	had, known := a.keeper.Pods(id)
	doors, wanted := a.guests.of(networkUID)
	spec, err := a.world.porthole(networkUID)
	if !wanted || errors.Is(err, errNoNetwork) {
		if err := a.removePorthole(ctx, id); err != nil {
			return err
		}
		if known {
			a.metrics.porthole(began, portholeRemoved)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !known && how == trusting {
		asked := time.Now()
		release, err := a.turns.acquire(ctx, makeTurn)
		if err != nil {
			return fmt.Errorf("wait for other portholes to be made: %w", err)
		}
		defer release()
		began = time.Now()
		a.metrics.waits.Observe(began.Sub(asked).Seconds())
		// Who came meanwhile comes along.
		doors, _ = a.guests.of(networkUID)
	}
	spec.Pods = doors
	if spec.MTU, spec.Offload, err = a.fabric(ctx); err != nil {
		return err
	}
	var kept time.Time
	if how == doubting || !known || a.keeper.Ensure(spec) != nil {
		// From the beginning, whatever is missing.
		err = a.plug(ctx,
			[]vswitch.Port{{Name: id.Name(), IfaceID: model.PortholePortName(spec.Network), Porthole: networkUID}},
			func() (bool, error) {
				whole, err := a.keeper.Whole(spec)
				if !whole {
					// Whoever answers is in a namespace that is made anew.
					a.stopNames(ctx, id)
					a.relays.Stop(string(id))
				}
				return whole, err
			},
			func() error {
				defer func() { kept = time.Now() }()
				return a.keeper.Repair(spec)
			})
	}
	plugged := time.Now()
	if err == nil {
		err = a.relays.Serve(string(id), id.NetnsPath(), spec.Relayed)
	}
	switch {
	case err != nil, how == doubting: // what a sweep mends is counted elsewhere
	case !known:
		a.metrics.step(stepPort, plugged.Sub(kept))
		a.metrics.porthole(began, portholeMade)
	case had != len(doors):
		a.metrics.porthole(began, portholePods)
	}
	return err
}

// plug makes links and has the bridge take them. A link that is made anew under its old name must have been let go of
// before.
func (a *Agent) plug(ctx context.Context, ports []vswitch.Port, whole func() (bool, error), ensure func() error) error {
	sound, err := whole()
	if err != nil {
		return err
	}
	var absent, stale []vswitch.Port
	for _, port := range ports {
		found, has, err := a.ovs.Find(ctx, port.Name)
		if err != nil {
			return err
		}
		if has && sound && found.IfaceID == port.IfaceID && found.Porthole == port.Porthole {
			continue
		}
		absent = append(absent, port)
		if has {
			stale = append(stale, found)
		}
	}
	if len(stale) > 0 {
		if err := a.ovs.Withdraw(ctx, stale...); err != nil {
			return err
		}
	}
	if err := ensure(); err != nil {
		return err
	}
	for _, port := range absent {
		if err := a.ovs.Attach(ctx, port); err != nil {
			return err
		}
	}
	return nil
}

// removePorthole removes a porthole with its port. The caller has its turn.
func (a *Agent) removePorthole(ctx context.Context, id porthole.ID) error {
	a.stopNames(ctx, id)
	a.relays.Stop(string(id))
	if err := a.withdraw(ctx, id.Name()); err != nil && !errors.Is(err, vswitch.ErrUnavailable) {
		return err
	}
	// Without a switch nobody holds the link. What is left in its database goes with the next sweep.
	return a.keeper.Remove(id)
}

// openHost brings the node's own side to the state that its annotation and the Networks ask for.
func (a *Agent) openHost(ctx context.Context) error {
	release, err := a.turns.acquire(ctx, hostTurn)
	if err != nil {
		return fmt.Errorf("wait for another change of the node's side: %w", err)
	}
	defer release()
	local, err := netdev.Addresses()
	if err != nil {
		return err
	}
	a.world.setLocal(local)
	if err := a.readUnderlay(ctx); err != nil {
		return err
	}
	host, network := a.world.host()
	if host.MTU, host.Offload, err = a.fabric(ctx); err != nil {
		return err
	}
	var ports []vswitch.Port
	if len(host.Addresses) > 0 {
		ports = []vswitch.Port{
			{Name: porthole.NodePort, IfaceID: model.NodePortName(network, a.node), Porthole: ownPort},
			{Name: porthole.EdgePort, IfaceID: model.PortholePortName(network), Porthole: ownPort},
		}
	} else if err := a.withdraw(ctx, porthole.NodePort, porthole.EdgePort); err != nil {
		return err
	}
	return a.plug(ctx, ports,
		func() (bool, error) { return a.keeper.WholeHost(host) },
		func() error { return a.keeper.EnsureHost(host) })
}

// ownPort marks the node's own ports.
const ownPort = "node"

// withdraw takes ports of these names out of the bridge, those that are there.
func (a *Agent) withdraw(ctx context.Context, names ...string) error {
	var found []vswitch.Port
	for _, name := range names {
		port, has, err := a.ovs.Find(ctx, name)
		if err != nil {
			return err
		}
		if has {
			found = append(found, port)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return a.ovs.Withdraw(ctx, found...)
}

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
