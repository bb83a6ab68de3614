package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// settleTime bounds the wait for ovs-vswitchd after a repair.
const settleTime = 5 * time.Second

// Check implements nodeapi.Answers. A repair is a sweep, between two looks.
func (i inquiry) Check(ctx context.Context, repair bool) (api.NodeCheckStatus, error) {
	if !i.sweptOnce() {
		return api.NodeCheckStatus{}, &nodeapi.RefusedError{
			What: "the agent has only just begun, and has not looked through its node yet", Temporary: true,
		}
	}
	before, err := i.review(ctx)
	if err != nil || !repair {
		return bounded(before), err
	}
	swept := i.sweep(ctx)
	// What was written is read only when the switch has said so. One that does not answer is told of below.
	settling, cancel := context.WithTimeout(ctx, settleTime)
	_ = i.ovs.Settled(settling)
	cancel()
	after, err := i.review(ctx)
	if err != nil {
		return api.NodeCheckStatus{}, errors.Join(swept, err)
	}
	after.Repaired = slices.DeleteFunc(before.Differences, func(d api.NodeDifference) bool { return slices.Contains(after.Differences, d) })
	if swept != nil {
		after.Problem = swept.Error()
	}
	return bounded(after), nil
}

// bounded is a check that is not longer than one may be.
func bounded(c api.NodeCheckStatus) api.NodeCheckStatus {
	c.More = max(0, len(c.Differences)-api.MaxNodeDifferences)
	c.Differences = c.Differences[:len(c.Differences)-c.More]
	c.Repaired = c.Repaired[:min(len(c.Repaired), api.MaxNodeDifferences)]
	return c
}

// review names what a sweep would change, and changes nothing. It leaves out containers with a request in flight, because their
// parts are still being made.
func (a *Agent) review(ctx context.Context) (api.NodeCheckStatus, error) {
	if err := a.ready(ctx); err != nil {
		return api.NodeCheckStatus{}, &nodeapi.RefusedError{What: err.Error(), Temporary: true}
	}
	seen, err := a.inventory(ctx)
	if err != nil {
		return api.NodeCheckStatus{}, err
	}
	out := api.NodeCheckStatus{Interfaces: len(seen.links), Differences: a.portsDiffer(seen)}
	bridge, err := a.bridgeDiffers(ctx)
	if err != nil {
		return api.NodeCheckStatus{}, err
	}
	found, looked, err := a.portholes.Review(ctx)
	if err != nil {
		return api.NodeCheckStatus{}, err
	}
	out.Portholes = looked
	out.Differences = slices.Concat(out.Differences, bridge, found)
	slices.SortFunc(out.Differences, api.NodeDifference.Compare)
	return out, nil
}

// portsDiffer compares ports, links and pods as a sweep does.
func (a *Agent) portsDiffer(seen inventory) (out []api.NodeDifference) {
	found := seen.leftovers()
	add := func(container string, all ...api.NodeDifference) {
		a.undisturbed(container, func() { out = append(out, all...) })
	}
	for _, p := range slices.Concat(found.ports, found.twins) {
		add(p.Sandbox, api.NodeDifference{
			Owner: "Pod/" + p.Pod, Kind: api.NodeInterfaceSurplus, Object: "Interface " + p.Name, Have: "iface-id=" + p.IfaceID,
		})
	}
	for _, l := range found.links {
		add(l.ContainerID, api.NodeDifference{
			Owner: a.ownerOf(l), Kind: api.NodeObjectSurplus, Object: "link " + l.HostName(), Have: "of container " + l.ContainerID,
		})
	}
	for _, l := range found.lost {
		want, _ := a.wantedPort(l)
		add(l.ContainerID, api.NodeDifference{
			Owner: a.ownerOf(l), Kind: api.NodeInterfaceMissing, Object: "Interface " + want.Name, Want: "iface-id=" + want.IfaceID,
		})
	}
	ports := make(map[string]vswitch.Port, len(seen.ports))
	for _, p := range seen.ports {
		ports[p.Name] = p
	}
	for _, p := range found.twins {
		delete(ports, p.Name)
	}
	for _, l := range seen.links {
		want, lives := a.wantedPort(l.Owner)
		if have, plugged := ports[want.Name]; plugged && lives {
			differ := portholes.PortDifferences(have, want)
			for n := range differ {
				differ[n].Owner = a.ownerOf(l.Owner)
			}
			add(l.ContainerID, differ...)
		}
	}
	return out
}

// ownerOf is the pod of a link; of one that has gone the node.
func (a *Agent) ownerOf(l netdev.Owner) string {
	if p, lives := a.pods.getByUID(l.PodUID); lives {
		return nb.PodOwner(p.key.Namespace, p.key.Name).String()
	}
	return nb.NodeOwner(a.node).String()
}

// bridgeDiffers looks at what the agent sets of the bridge itself.
func (a *Agent) bridgeDiffers(ctx context.Context) ([]api.NodeDifference, error) {
	whole, have, err := a.ovs.Throttled(ctx, a.throttle.dir, a.throttle.rate)
	if err != nil || whole {
		return nil, err
	}
	want := "none that bounds ovn-controller"
	if a.throttle.rate > 0 {
		want = fmt.Sprintf("ovn-controller comes by one of at most %d packets a second", a.throttle.rate)
	}
	return []api.NodeDifference{
		{Owner: nb.NodeOwner(a.node).String(), Kind: api.NodeObjectDiffers, Object: "controller of bridge " + a.bridge, Want: want, Have: have},
	}, nil
}
