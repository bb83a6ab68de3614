package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// boundsEvery is how often it is looked what was dropped, and whether all interfaces are bounded.
const boundsEvery = 10 * time.Second

// bounds keep what pods send to what one may send.
type bounds struct {
	wanted netdev.Bounds
	// dropped is what each interface's bounds had dropped at the last look, by the name of the node's end; nil before the first look.
	// Only who looks has it.
	dropped map[string]netdev.Dropped
	// impossible is told once.
	impossible sync.Once
}

// post is where an interface is bounded: where the pod cannot change it, if the datapath obeys there. (netdev.NodePost, netdev.PodPost)
func post(userspace bool, owner netdev.Owner) netdev.Post {
	if userspace {
		return netdev.PodPost(owner, owner.Netns)
	}
	return netdev.NodePost(owner)
}

// bound bounds what a new interface sends. A kernel that cannot do so is no reason to have no network.
func (a *Agent) bound(ctx context.Context, owner netdev.Owner) error {
	userspace, err := a.ovs.Userspace(ctx)
	if err != nil {
		return err
	}
	err = post(userspace, owner).Set(a.bounds.wanted)
	if errors.Is(err, netdev.ErrNoBounds) {
		a.bounds.impossible.Do(func() { a.log.Warn("pods can slow their neighbours", "error", err) })
		return nil
	}
	return err
}

// keepBounds bounds all interfaces, those too that an agent before this one left without or with others, and tells what was dropped. It
// ends with ctx.
func (a *Agent) keepBounds(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if a.ready(ctx) != nil {
			return
		}
		if err := a.lookAtBounds(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("not all that pods send is bounded", "error", err)
		}
	}, boundsEvery)
	return nil
}

// lookAtBounds looks once.
func (a *Agent) lookAtBounds(ctx context.Context) error {
	userspace, err := a.ovs.Userspace(ctx)
	if err != nil {
		return err
	}
	owners, err := a.boundable(ctx, userspace)
	if err != nil {
		return err
	}
	node := map[string]netdev.Bounded{}
	var failed []error
	if !userspace {
		if node, err = netdev.ReadBounds(""); err != nil {
			return err
		}
		failed = append(failed, netdev.ForgetBounds())
	}
	before, now, unbounded := a.bounds.dropped, map[string]netdev.Dropped{}, 0
	told := map[netdev.Owner]netdev.Dropped{}
	for _, owner := range owners {
		name := owner.HostName()
		release, free := a.locks.Try(owner.ContainerID)
		if !free {
			// Its request bounds it.
			now[name] = before[name]
			continue
		}
		present, err := a.restoreBounds(post(userspace, owner), node)
		release()
		if err != nil {
			unbounded++
			failed = append(failed, fmt.Errorf("container %s: %w", owner.ContainerID, err))
			continue
		}
		now[name] = present.Dropped
		// What there is at the first look an agent before this one has told.
		if more := since(before[name], present.Dropped); before != nil && len(more) > 0 {
			told[owner] = more
		}
	}
	a.bounds.dropped = now
	a.metrics.unbounded.Set(float64(unbounded))
	for owner, more := range told {
		a.tellDropped(ctx, owner, more)
	}
	return errors.Join(failed...)
}

// boundable are the interfaces of pods on this node that can be bounded.
func (a *Agent) boundable(ctx context.Context, userspace bool) ([]netdev.Owner, error) {
	links, err := netdev.List()
	if err != nil {
		return nil, err
	}
	ports, err := a.ovs.List(ctx)
	if err != nil {
		return nil, err
	}
	netns := make(map[string]string, len(ports))
	for _, p := range ports {
		netns[p.Name] = p.Netns
	}
	var out []netdev.Owner
	for _, link := range links {
		owner := link.Owner
		if owner.Netns == "" {
			owner.Netns = netns[owner.HostName()]
		}
		// One whose namespace has gone sends nothing.
		if !userspace || !netdev.NetnsGone(owner.Netns) {
			out = append(out, owner)
		}
	}
	return out, nil
}

// restoreBounds bounds an interface if it is not bounded as it should be, and returns what its bounds have dropped.
func (a *Agent) restoreBounds(at netdev.Post, node map[string]netdev.Bounded) (netdev.Bounded, error) {
	here := node
	if at.Netns != "" {
		var err error
		if here, err = netdev.ReadBounds(at.Netns); err != nil {
			return netdev.Bounded{}, err
		}
	}
	present := here[at.Device]
	if present.Bounds == a.bounds.wanted {
		return present, nil
	}
	err := at.Set(a.bounds.wanted)
	a.metrics.swept(sweptBounds, err)
	return netdev.Bounded{Bounds: a.bounds.wanted}, err
}

// since is what was dropped between two looks. Bounds that were set anew in between count from 0.
func since(before, now netdev.Dropped) netdev.Dropped {
	out := netdev.Dropped{}
	for which, packets := range now {
		if earlier := before[which]; packets > earlier {
			packets -= earlier
		} else if packets == earlier {
			continue
		}
		if packets > 0 {
			out[which] = packets
		}
	}
	return out
}

// tellDropped counts what was dropped of an interface, and tells its pod.
func (a *Agent) tellDropped(ctx context.Context, owner netdev.Owner, dropped netdev.Dropped) {
	for which, packets := range dropped {
		a.metrics.dropped.WithLabelValues(string(which)).Add(float64(packets))
	}
	if p, lives := a.pods.getByUID(owner.PodUID); lives {
		a.teller.warn(ctx, p.key, p.uid, model.Problem{
			Reason: model.ReasonPacketsDropped, Message: droppedMessage(owner.Interface, a.bounds.wanted, dropped),
		})
	}
}

// droppedMessage is for who looks after the pod.
func droppedMessage(iface string, bounds netdev.Bounds, dropped netdev.Dropped) string {
	var parts []string
	for _, b := range []struct {
		which netdev.Bound
		what  string
		most  uint32
	}{
		{netdev.BoundBroadcasts, "frames to all or to groups", bounds.Broadcasts},
		{netdev.BoundRequests, "packets that are ARP, ICMP or at the end of their time to live", bounds.Requests},
		{netdev.BoundPackets, "packets of any kind", bounds.Packets},
	} {
		if packets := dropped[b.which]; packets > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (at most %d a second pass)", packets, b.what, b.most))
		}
	}
	return fmt.Sprintf("%s sends more than a pod may; dropped in the last %s: %s", iface, boundsEvery, strings.Join(parts, "; "))
}
