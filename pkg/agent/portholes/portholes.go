// Package portholes makes the portholes of a node what its pods need.
//
//	requests, sweeps ──▶ guests: the pods with faces ─┐
//	world: what the cluster is ───────────────────────┴──▶ package porthole: namespaces, rules, routes
//	                                                   └──▶ ports on the bridge, names, ways to the API
//
// What must stay true: what is here can be made anew from links and pods at any time; portholes are made one after the other.
package portholes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/apirelay"
	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/locks"
	"github.com/atoll-net/atoll/pkg/agent/names"
	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// Care is how much is looked at when a porthole is made what it should be.
type Care int

const (
	// Trusting takes what was made before for what is there.
	Trusting Care = iota
	// Doubting looks at everything that somebody else may have changed.
	Doubting
)

const (
	// undoTime bounds the clearing up after a pod that was not admitted, whose own time has often ended.
	undoTime = 10 * time.Second
	// refreshTime bounds the looking at all portholes after a change.
	refreshTime = 30 * time.Second
)

// hostTurn is the key of the lock for the node's own side; no porthole's ID has this form.
const hostTurn = "host"

// makeTurn is the key of the lock for making portholes: one after the other. They would only be in each other's way, at the
// processors and at the kernel's lock of all links, where each of them takes many turns.
const makeTurn = "make"

// Config is what a node's portholes are made from, and by what.
type Config struct {
	Node   string
	World  *world.World
	Switch *vswitch.Client
	Keeper *porthole.Keeper
	Names  *names.Names
	// Southbound are servers of OVN's southbound database beside those that the switch knows.
	Southbound func() []netip.AddrPort
	// Fabric is what all links to the bridge have in common.
	Fabric func(context.Context) (mtu int, offload netdev.Offload, err error)
	// Attached is what the controller decided about the interface of a link; lives is false when its pod has gone.
	Attached func(netdev.Owner) (key model.AttachmentKey, n attachment.NIC, lives bool, err error)
	// Undisturbed does something unless a request for a container is in flight.
	Undisturbed func(container string, do func())
	// Soon asks for a sweep before its time.
	Soon func()
	// Swept is told what a sweep repaired.
	Swept   func(what string, err error)
	Metrics *Metrics
	Log     *slog.Logger
}

// Portholes are those of one node.
type Portholes struct {
	Config
	guests *guests
	// relays lead pods of Networks of IPv6 alone to API servers.
	relays *apirelay.Relays
	// turns are of portholes.
	turns *locks.Locks
}

// New makes nothing yet. The caller closes them.
func New(config Config) *Portholes {
	return &Portholes{Config: config, guests: newGuests(), relays: apirelay.New(config.World.APIServers, config.Log), turns: locks.New()}
}

// Close ends the connections that lead through this process. What else there is stays.
func (p *Portholes) Close() { p.relays.Close() }

// Admit makes the porthole of a container's Network, or adds the container's pod to it, before anybody can know its face.
// A pod without faces needs none.
func (p *Portholes) Admit(ctx context.Context, container, iface string, n attachment.NIC) error {
	if len(n.Faces) == 0 {
		return nil
	}
	if err := p.World.Await(ctx, n); err != nil {
		return err
	}
	p.guests.put(container, iface, n)
	_, known := p.Keeper.Pods(porthole.IDOf(n.NetworkUID))
	err := p.openPorthole(ctx, n.NetworkUID, Trusting)
	if err == nil {
		pods := p.Pods(n.NetworkUID)
		for _, door := range n.Doors() {
			if !slices.Contains(pods, door) {
				err = fmt.Errorf("face %s or address %s is another pod's on this node", door.Face, door.Own)
			}
		}
	}
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		return errors.Join(fmt.Errorf("open porthole of Network %s: %w", n.Network, err), p.Leave(late, container))
	}
	began := time.Now()
	if spec, err := p.World.Porthole(n.NetworkUID); err == nil {
		p.Names.Await(ctx, spec)
	}
	if !known {
		p.Metrics.Step(stepNames, time.Since(began))
	}
	return nil
}

// Pods are the addresses of a Network's pods on this node.
func (p *Portholes) Pods(networkUID string) []porthole.Pod {
	pods, _ := p.guests.of(networkUID)
	return pods
}

// Leave takes a container's pod out of its porthole, and removes the porthole with its last pod.
func (p *Portholes) Leave(ctx context.Context, container string) error {
	g, was := p.guests.remove(container)
	if !was {
		return nil
	}
	if err := p.openPorthole(ctx, g.networkUID, Trusting); err != nil {
		// Whoever asked may not ask again.
		p.Soon()
		return fmt.Errorf("close porthole: %w", err)
	}
	return nil
}

// openPorthole brings a Network's porthole to the state that its guests need. Without guests, or without its Network, there
// is none.
func (p *Portholes) openPorthole(ctx context.Context, networkUID string, how Care) error {
	id := porthole.IDOf(networkUID)
	release, err := p.turns.Acquire(ctx, string(id))
	if err != nil {
		return fmt.Errorf("wait for another change of the porthole: %w", err)
	}
	defer release()
	began := time.Now()
	had, known := p.Keeper.Pods(id)
	doors, wanted := p.guests.of(networkUID)
	spec, err := p.World.Porthole(networkUID)
	if !wanted || errors.Is(err, world.ErrNoNetwork) {
		if err := p.removePorthole(ctx, id); err != nil {
			return err
		}
		if known {
			p.Metrics.change(began, removed)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !known && how == Trusting {
		asked := time.Now()
		release, err := p.turns.Acquire(ctx, makeTurn)
		if err != nil {
			return fmt.Errorf("wait for other portholes to be made: %w", err)
		}
		defer release()
		began = time.Now()
		p.Metrics.waits.Observe(began.Sub(asked).Seconds())
		// Who came meanwhile comes along.
		doors, _ = p.guests.of(networkUID)
	}
	spec.Pods = doors
	if spec.MTU, spec.Offload, err = p.Fabric(ctx); err != nil {
		return err
	}
	var kept time.Time
	if how == Doubting || !known || p.Keeper.Ensure(spec) != nil {
		// From the beginning, whatever is missing.
		err = p.plug(ctx,
			[]vswitch.Port{portOf(spec)},
			func() (bool, error) {
				whole, err := p.Keeper.Whole(spec)
				if !whole {
					// Whoever answers is in a namespace that is made anew.
					p.Names.Stop(ctx, id)
					p.relays.Stop(string(id))
				}
				return whole, err
			},
			func() error {
				defer func() { kept = time.Now() }()
				return p.Keeper.Repair(spec)
			})
	}
	plugged := time.Now()
	if err == nil {
		err = p.relays.Serve(string(id), id.NetnsPath(), spec.Relayed)
	}
	switch {
	case err != nil, how == Doubting: // what a sweep mends is counted elsewhere
	case !known:
		p.Metrics.Step(stepPort, plugged.Sub(kept))
		p.Metrics.change(began, made)
	case had != len(doors):
		p.Metrics.change(began, changedPods)
	}
	return err
}

// portOf is the port of a porthole on the bridge.
func portOf(spec porthole.Spec) vswitch.Port {
	return vswitch.Port{Name: porthole.IDOf(spec.UID).Name(), IfaceID: model.PortholePortName(spec.Network), Porthole: spec.UID}
}

// hostPorts are those of the node itself; none where it has no addresses in the default Network.
func (p *Portholes) hostPorts(host porthole.Host, network string) []vswitch.Port {
	if len(host.Addresses) == 0 {
		return nil
	}
	return []vswitch.Port{
		{Name: porthole.NodePort, IfaceID: model.NodePortName(network, p.Node), Porthole: ownPort},
		{Name: porthole.EdgePort, IfaceID: model.PortholePortName(network), Porthole: ownPort},
	}
}

// plug makes links and has the bridge take them. A link that is made anew under its old name must have been let go of
// before.
func (p *Portholes) plug(ctx context.Context, ports []vswitch.Port, whole func() (bool, error), ensure func() error) error {
	sound, err := whole()
	if err != nil {
		return err
	}
	var absent, stale []vswitch.Port
	for _, port := range ports {
		found, has, err := p.Switch.Find(ctx, port.Name)
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
		if err := p.Switch.Withdraw(ctx, stale...); err != nil {
			return err
		}
	}
	if err := ensure(); err != nil {
		return err
	}
	for _, port := range absent {
		if err := p.Switch.Attach(ctx, port); err != nil {
			return err
		}
	}
	return nil
}

// removePorthole removes a porthole with its port. The caller has its turn.
func (p *Portholes) removePorthole(ctx context.Context, id porthole.ID) error {
	p.Names.Stop(ctx, id)
	p.relays.Stop(string(id))
	if err := p.withdraw(ctx, id.Name()); err != nil && !errors.Is(err, vswitch.ErrUnavailable) {
		return err
	}
	// Without a switch nobody holds the link. What is left in its database goes with the next sweep.
	return p.Keeper.Remove(id)
}

// openHost brings the node's own side to the state that its annotation and the Networks ask for.
func (p *Portholes) openHost(ctx context.Context) error {
	release, err := p.turns.Acquire(ctx, hostTurn)
	if err != nil {
		return fmt.Errorf("wait for another change of the node's side: %w", err)
	}
	defer release()
	local, err := netdev.Addresses()
	if err != nil {
		return err
	}
	p.World.SetLocal(local)
	if err := p.readUnderlay(ctx); err != nil {
		return err
	}
	host, network := p.World.Host()
	if host.MTU, host.Offload, err = p.Fabric(ctx); err != nil {
		return err
	}
	ports := p.hostPorts(host, network)
	if len(ports) == 0 {
		if err := p.withdraw(ctx, porthole.NodePort, porthole.EdgePort); err != nil {
			return err
		}
	}
	return p.plug(ctx, ports,
		func() (bool, error) { return p.Keeper.WholeHost(host) },
		func() error { return p.Keeper.EnsureHost(host) })
}

// ownPort marks the node's own ports.
const ownPort = "node"

// withdraw takes ports of these names out of the bridge, those that are there.
func (p *Portholes) withdraw(ctx context.Context, names ...string) error {
	var found []vswitch.Port
	for _, name := range names {
		port, has, err := p.Switch.Find(ctx, name)
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
	return p.Switch.Withdraw(ctx, found...)
}
