package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"go4.org/netipx"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// errCheckFailed is the code of a CHECK that found something wrong; the specification leaves 100 and above to
// plugins.
const errCheckFailed = 100

// Del takes a container's interface away. That there is none is a success.
func (a *Agent) Del(ctx context.Context, request cni.Request) error {
	release, err := a.locks.Acquire(ctx, request.ContainerID)
	if err != nil {
		return tryAgain(fmt.Errorf("wait for another request of this container: %w", err))
	}
	defer release()
	owner := netdev.Owner{ContainerID: request.ContainerID, Interface: request.Interface}
	err = a.disconnect(ctx, owner)
	if errors.Is(err, vswitch.ErrUnavailable) && netdev.NetnsGone(request.Netns) {
		// The link has gone, and its namespace: what is left in the database proves itself stale to the sweep.
		a.log.Warn("port left to the sweep", "container", request.ContainerID, "error", err)
		err = nil
	}
	a.metrics.count(cni.Del, err)
	return tryAgain(err)
}

// disconnect removes port and link of one container's interface, and the pod's place in the porthole. Another
// container's are never touched, be it of the same pod: their names differ. Without the database the link goes all the same.
func (a *Agent) disconnect(ctx context.Context, owner netdev.Owner) error {
	detached := a.unplug(ctx, owner)
	if err := netdev.Delete(owner); err != nil {
		return err
	}
	if err := a.portholes.Leave(ctx, owner.ContainerID); err != nil {
		return err
	}
	return detached
}

// lastWords is how long ovs-vswitchd has to send what a container said last, as that its connections are at an end. It takes
// milliseconds, and some hundred when the node has too little processor time.
const lastWords = 2 * time.Second

// unplug takes the port of a container's interface out of the bridge.
func (a *Agent) unplug(ctx context.Context, owner netdev.Owner) error {
	port, found, err := a.ovs.Find(ctx, owner.HostName())
	if err != nil || !found || port.Sandbox != owner.ContainerID {
		return err
	}
	return a.ovs.Release(ctx, lastWords, port)
}

// Check reports what of a container's interface is not as ADD left it.
func (a *Agent) Check(ctx context.Context, request cni.Request) error {
	err := a.check(ctx, request)
	a.metrics.count(cni.Check, err)
	if errors.Is(err, vswitch.ErrUnavailable) {
		return tryAgain(err)
	}
	if err != nil {
		return types.NewError(errCheckFailed, fmt.Sprintf("pod %s: %v", request.Pod.Key(), err), "")
	}
	return nil
}

func (a *Agent) check(ctx context.Context, request cni.Request) error {
	release, err := a.locks.Acquire(ctx, request.ContainerID)
	if err != nil {
		return fmt.Errorf("wait for another request of this container: %w", err)
	}
	defer release()
	pod, found := a.pods.get(request.Pod.Key())
	if !found || !pod.is(request.Pod) {
		return errors.New("the API server does not show this pod")
	}
	nic, err := attachment.Parse(pod.attachments, pod.uid, request.Interface)
	if err != nil {
		return err
	}
	w, err := a.wanted(ctx, request, pod, nic)
	if err != nil {
		return err
	}
	if err := netdev.Verify(w.link); err != nil {
		return err
	}
	port, found, err := a.ovs.Find(ctx, w.port.Name)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("open vSwitch has no port %s", w.port.Name)
	case !sameBinding(port, w.port):
		return fmt.Errorf("port %s is bound to iface-id %s, not %s", port.Name, port.IfaceID, w.port.IfaceID)
	case port.Problem != "":
		return fmt.Errorf("open vSwitch cannot use port %s: %s", port.Name, port.Problem)
	case !port.Installed:
		return fmt.Errorf("OVN has not set up port %s", port.Name)
	}
	return nil
}

// GC removes what is ours and not among the valid attachments. A container with a request in flight is left
// alone: the runtime did not know of it when it made the list.
func (a *Agent) GC(ctx context.Context, request cni.Request) error {
	valid := make(map[string]bool, len(request.Valid))
	for _, v := range request.Valid {
		valid[netdev.HostName(v.ContainerID, v.Interface)] = true
	}
	seen, err := a.inventory(ctx)
	if err != nil {
		return tryAgain(err)
	}
	stale := map[string]netdev.Owner{}
	for _, p := range seen.ports {
		stale[p.Name] = netdev.Owner{ContainerID: p.Sandbox, Interface: p.Interface}
	}
	for _, l := range seen.links {
		stale[l.HostName()] = l.Owner
	}
	var failed []error
	for name, owner := range stale {
		release, free := a.locks.Try(owner.ContainerID)
		if valid[name] || !free {
			if free {
				release()
			}
			continue
		}
		err := a.disconnect(ctx, owner)
		release()
		a.metrics.swept(sweptCollected, err)
		failed = append(failed, err)
		a.log.Info("garbage collected", "container", owner.ContainerID, "port", name, "error", err)
	}
	err = errors.Join(failed...)
	a.metrics.count(cni.GC, err)
	return tryAgain(err)
}

// Status reports why an ADD could not be served now.
func (a *Agent) Status(ctx context.Context) error {
	err := a.ready(ctx)
	if err != nil {
		return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
	}
	return nil
}

// ready reports what the agent misses; nil when it has all.
func (a *Agent) ready(ctx context.Context) error {
	if !a.pods.inSync() {
		return errors.New("the pods of this node have not been read from the API server yet")
	}
	if err := a.world.Ready(); err != nil {
		return err
	}
	return a.ovs.Ready(ctx)
}

// tryAgain marks an error as passing, which is what it is for the runtime: it asks again in any case.
func tryAgain(err error) error {
	if err == nil {
		return nil
	}
	return types.NewError(types.ErrTryAgainLater, err.Error(), "")
}

func defaultDestination(gateway netip.Addr) net.IPNet {
	if gateway.Is4() {
		return *netipx.PrefixIPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	}
	return *netipx.PrefixIPNet(netip.PrefixFrom(netip.IPv6Unspecified(), 0))
}
