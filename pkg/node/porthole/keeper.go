package porthole

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// Keeper makes, changes and removes the portholes of a node, and the node's own side. What it remembers only saves
// work: one that is started anew comes to the same state.
//
// Calls for different portholes may run at the same time; calls for one follow each other, which the caller sees to.
type Keeper struct {
	// OnStep is told how long each step took of a porthole that was made where there was nothing; nil tells nobody.
	OnStep func(step Step, took time.Duration)

	// commit makes a change of nftables in the namespace of the calling thread; tests hold it up.
	commit func(*transaction) error

	mu    sync.Mutex
	known map[ID]known
	host  knownHost
}

// Step is a part of making a porthole.
type Step string

// The steps, in their order.
const (
	// StepNamespace makes the network namespace and sets what all its links get.
	StepNamespace Step = "namespace"
	// StepLinks makes both veth pairs, while the rules are written.
	StepLinks Step = "links"
	// StepAddresses gives them addresses, neighbours and routes, inside, while the rules are written.
	StepAddresses Step = "addresses"
	// StepRules is what it takes longer than that to write the rules.
	StepRules Step = "rules"
	// StepMount is what it takes longer than all of that to mount the namespace, which is begun with it.
	StepMount Step = "mount"
	// StepFaces brings the node's ends up and leads the node to the faces.
	StepFaces Step = "faces"
)

// stopwatch tells how long each step took.
type stopwatch struct {
	tell  func(Step, time.Duration)
	since time.Time
}

// done ends a step; the next begins.
func (w *stopwatch) done(step Step) {
	if w.tell != nil {
		now := time.Now()
		w.tell(step, now.Sub(w.since))
		w.since = now
	}
}

// known is what was last made of a porthole.
type known struct {
	spec Spec
	// generation of its ruleset after that.
	generation uint32
	// sources are the node's addresses that its faces' routes have as their source.
	sources []netip.Prefix
}

// NewKeeper finds out whether the kernel has nftables.
func NewKeeper() (*Keeper, error) {
	if _, err := generation(); err != nil {
		return nil, fmt.Errorf("use nftables: %w", err)
	}
	return &Keeper{commit: (*transaction).commit, known: map[ID]known{}}, nil
}

// Whole reports whether a porthole's namespace and links are there as spec wants them. When they are not, Repair makes
// them anew, and whoever holds the link on the bridge must let go of it before.
func (k *Keeper) Whole(spec Spec) (bool, error) {
	netns, err := ns.GetNS(spec.id().NetnsPath())
	if err != nil {
		// Not there, or nothing that could be used.
		return false, nil
	}
	defer netns.Close()
	for _, c := range spec.cables() {
		if whole, err := c.whole(netns); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}

// Pods is for how many pods' addresses a porthole was last made; false unless this Keeper made it, and it has not been
// removed or failed since.
func (k *Keeper) Pods(id ID) (int, bool) {
	last, has := k.recall(id)
	return len(last.spec.Pods), has
}

// errBroken: somebody has taken away what was made.
var errBroken = errors.New("the porthole is not as it was made")

// Ensure makes the porthole of spec, or changes it into what spec says. When only pods have come or gone, it touches
// only their elements and their routes. Links that are there are never made anew: where that is needed, it is an error,
// and for Repair.
func (k *Keeper) Ensure(spec Spec) error {
	spec = spec.normal()
	last, has := k.recall(spec.id())
	if !has {
		return k.build(spec)
	}
	if last.spec.sameButPods(spec) && slices.Equal(last.sources, k.sources()) {
		return k.change(last, spec)
	}
	if whole, err := k.Whole(spec); err != nil || !whole {
		k.forget(spec.id())
		return errors.Join(errBroken, err)
	}
	return k.build(spec)
}

// Repair is Ensure, but looks at everything that somebody else may have changed since, and makes anew what is broken.
// Whoever holds the link on the bridge must have let go of it unless the porthole is Whole.
func (k *Keeper) Repair(spec Spec) error { return k.build(spec.normal()) }

func (k *Keeper) recall(id ID) (known, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, has := k.known[id]
	return last, has
}

// sources are the node's addresses in the default Network, as they were last made.
func (k *Keeper) sources() []netip.Prefix {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.host.spec.Addresses
}

func (k *Keeper) remember(id ID, last known) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[id] = last
}

func (k *Keeper) forget(id ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, id)
}

// build makes everything that is not as it should be. The order lets nothing pass before the rules are there: the node's ends of
// the links come up after them.
func (k *Keeper) build(spec Spec) error {
	last, has := k.recall(spec.id())
	k.forget(spec.id())
	watch := stopwatch{since: time.Now()}
	netns, err := openNetns(spec.id().NetnsPath())
	if err != nil {
		return err
	}
	defer netns.Close()
	now := known{spec: spec, sources: k.sources()}
	if netns.upon == nothing {
		watch.tell = k.OnStep
		now.generation, err = k.fill(netns, spec, &watch)
	} else {
		now.generation, err = k.renew(netns, spec, last, has)
	}
	if err != nil {
		return err
	}
	if has {
		if err := endConnections(netns, missing(last.spec.Pods, spec.Pods)); err != nil {
			return err
		}
	}
	if netns.upon == nothing {
		err = k.changeFaces(spec, nil, spec.Pods)
	} else {
		err = k.routeFaces(spec)
	}
	if err != nil {
		return err
	}
	watch.done(StepFaces)
	k.remember(spec.id(), now)
	return nil
}

// fill makes all of a namespace that is new. Until it stays, and has its rules, the node's ends of the links are down, and so nothing
// passes.
func (k *Keeper) fill(netns space, spec Spec, watch *stopwatch) (after uint32, err error) {
	after, err = k.furnishNew(netns, spec, watch)
	// In any case: whoever makes it anew must not be overtaken by this one's mount.
	err = errors.Join(err, netns.stay())
	watch.done(StepMount)
	if err != nil {
		return 0, err
	}
	for _, c := range spec.cables() {
		if err := c.raise(); err != nil {
			return 0, err
		}
	}
	return after, nil
}

// furnishNew makes the rules and the links of a namespace that has neither, at the same time: while the one waits for a lock, the other
// goes on. The node's ends of the links stay down.
func (k *Keeper) furnishNew(netns ns.NetNS, spec Spec, watch *stopwatch) (after uint32, err error) {
	if err := inside(netns, func() error { return harden(spec.hasIPv6()) }); err != nil {
		return 0, err
	}
	watch.done(StepNamespace)
	written := make(chan error, 1)
	go func() { // ends with the kernel's answer
		written <- inside(netns, func() (err error) {
			after, err = k.writeTable(spec, nothing)
			return err
		})
	}()
	err = lay(netns, spec, watch)
	err = errors.Join(err, <-written)
	watch.done(StepRules)
	return after, err
}

// lay makes the links of a porthole that has none, with all that is inside. The node's ends stay down.
func lay(netns ns.NetNS, spec Spec, watch *stopwatch) error {
	for _, c := range spec.cables() {
		if err := c.make(netns); err != nil {
			return err
		}
	}
	watch.done(StepLinks)
	if err := inside(netns, func() error { return furnish(spec, nothing) }); err != nil {
		return err
	}
	watch.done(StepAddresses)
	return nil
}

// renew makes the rules and the links of a namespace what they should be, whatever it has.
func (k *Keeper) renew(netns ns.NetNS, spec Spec, last known, has bool) (after uint32, err error) {
	err = inside(netns, func() error {
		if err := harden(spec.hasIPv6()); err != nil {
			return err
		}
		after, err = k.renewTable(spec, last, has)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, c := range spec.cables() {
		if err := c.ensure(netns); err != nil {
			return 0, err
		}
	}
	return after, inside(netns, func() error { return furnish(spec, something) })
}

// renewTable makes the rules those of spec: of those that were last made what differs, and all of them if somebody else has touched any. It
// runs inside.
func (k *Keeper) renewTable(spec Spec, last known, has bool) (after uint32, err error) {
	if !has {
		return k.writeTable(spec, something)
	}
	now, err := generation()
	if err != nil {
		return 0, err
	}
	if now == last.generation {
		if last.spec.sameButPods(spec) && slices.Equal(last.spec.Pods, spec.Pods) {
			return now, nil
		}
		if change, ok := portholeRules(spec, something).since(portholeRules(last.spec, something)); ok && k.commit(change) == nil {
			return generation()
		}
	}
	return k.writeTable(spec, something)
}

// writeTable writes the rules. It runs inside.
func (k *Keeper) writeTable(spec Spec, upon before) (after uint32, err error) {
	if err := k.commit(portholeRules(spec, upon)); err != nil {
		return 0, fmt.Errorf("write rules: %w", err)
	}
	return generation()
}

// change adds and removes pods.
func (k *Keeper) change(last known, spec Spec) error {
	gone, come := missing(last.spec.Pods, spec.Pods), missing(spec.Pods, last.spec.Pods)
	if len(gone)+len(come) == 0 {
		return nil
	}
	// Until all is done, nothing is known.
	k.forget(spec.id())
	netns, err := ns.GetNS(spec.id().NetnsPath())
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	defer netns.Close()
	now := known{spec: spec, sources: last.sources}
	err = inside(netns, func() error {
		if err := k.commit(changePods(gone, come)); err != nil {
			return fmt.Errorf("write pods: %w", err)
		}
		now.generation, err = generation()
		return err
	})
	if err != nil {
		return err
	}
	if err := endConnections(netns, gone); err != nil {
		return err
	}
	if err := k.changeFaces(spec, gone, come); err != nil {
		return err
	}
	k.remember(spec.id(), now)
	return nil
}

// endConnections forgets the connections of pods that have gone: another pod may get their addresses.
func endConnections(netns ns.NetNS, gone []Pod) error {
	if len(gone) == 0 {
		return nil
	}
	return inside(netns, func() error {
		for _, family := range []netlink.InetFamily{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			filter := connectionsOf(gone)
			if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter); err != nil {
				return fmt.Errorf("end connections: %w", err)
			}
		}
		return nil
	})
}

// connectionsOf matches what a pod began and what came to its face.
type connectionsOf []Pod

// MatchConntrackFlow is called for each connection.
func (c connectionsOf) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	return slices.ContainsFunc(c, func(pod Pod) bool {
		return flow.Forward.SrcIP.Equal(pod.Own.AsSlice()) || flow.Forward.DstIP.Equal(pod.Face.AsSlice())
	})
}
