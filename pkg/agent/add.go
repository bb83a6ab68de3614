package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"go4.org/netipx"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// undoTimeout bounds the clearing up after a failed ADD, whose own context has often ended.
const undoTimeout = 10 * time.Second

// Add gives a container its interface, and returns when packets can flow. Asked again for a container that
// has its interface, it returns the same result and changes nothing.
func (a *Agent) Add(ctx context.Context, request cni.Request) (*current.Result, error) {
	watch := a.metrics.watchAdd()
	ctx, cancel := a.metrics.progress.patience(ctx, watch.now)
	defer cancel()
	defer a.explain(ctx, request, watch)()
	result, err := a.add(ctx, request, watch)
	watch.done(err)
	if err != nil {
		return nil, tryAgain(fmt.Errorf("attach pod %s: %w", request.Pod.Key(), err))
	}
	return result, nil
}

func (a *Agent) add(ctx context.Context, request cni.Request, watch *addWatch) (*current.Result, error) {
	release, err := a.locks.Acquire(ctx, request.ContainerID)
	if err != nil {
		return nil, fmt.Errorf("wait for another request of this container: %w", err)
	}
	defer release()
	pod, nic, err := a.pods.await(ctx, request.Pod, request.Interface)
	if err != nil {
		return nil, err
	}
	a.expectNRI(ctx, pod)
	watch.phase(phaseAttachment)
	w, err := a.wanted(ctx, request, pod, nic)
	if err != nil {
		return nil, err
	}
	// Before the pod's own port: once OVN has set up that, it has set up the porthole's.
	if err := a.portholes.Admit(ctx, request.ContainerID, request.Interface, nic); err != nil {
		return nil, err
	}
	a.tellNameless(ctx, pod, nic)
	watch.phase(phasePorthole)
	undo, err := a.connect(ctx, w, watch)
	if err != nil {
		return nil, err
	}
	if err := a.settle(ctx, w, watch); err != nil {
		return nil, errors.Join(err, undo())
	}
	return w.result(), nil
}

// wanted is what an ADD makes: both halves follow from the request and the pod alone.
type wanted struct {
	pod  pod
	nic  attachment.NIC
	link netdev.Spec
	port vswitch.Port
}

func (a *Agent) wanted(ctx context.Context, request cni.Request, pod pod, nic attachment.NIC) (wanted, error) {
	mtu, offload, err := a.fabric(ctx)
	if err != nil {
		return wanted{}, err
	}
	owner := netdev.Owner{
		ContainerID: request.ContainerID,
		Interface:   request.Interface,
		PodUID:      pod.uid,
		Netns:       request.Netns,
	}
	inside, err := a.world.Inside(ctx, nic)
	if err != nil {
		return wanted{}, err
	}
	return wanted{
		pod: pod,
		nic: nic,
		link: netdev.Spec{
			Owner:     owner,
			Netns:     request.Netns,
			MAC:       nic.MAC,
			MTU:       mtu,
			Addresses: nic.Addresses,
			Faces:     inside.Faces,
			Gateways:  nic.Gateways,
			Beyond:    inside.Beyond,
			Offload:   offload,
		},
		port: portFor(owner, pod, nic),
	}, nil
}

// portFor is the port of a pod's interface. What binds it to a logical port comes from the pod's identity.
func portFor(owner netdev.Owner, pod pod, nic attachment.NIC) vswitch.Port {
	return vswitch.Port{
		Name:       owner.HostName(),
		IfaceID:    pod.attachment(owner.Interface).PortName(),
		IfaceIDVer: pod.uid,
		Pod:        pod.key.String(),
		Sandbox:    owner.ContainerID,
		Interface:  owner.Interface,
		Netns:      owner.Netns,
		MAC:        nic.MAC.String(),
		Addresses:  joinAddresses(nic.Addresses),
	}
}

// connect makes link and port unless both are there already. undo takes back what this call made.
func (a *Agent) connect(ctx context.Context, w wanted, watch *addWatch) (undo func() error, err error) {
	undo = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		return a.disconnect(ctx, w.link.Owner)
	}
	existing, found, err := a.ovs.Find(ctx, w.port.Name)
	if err != nil {
		return nil, errors.Join(err, a.portholes.Leave(ctx, w.link.Owner.ContainerID))
	}
	if found {
		if sameBinding(existing, w.port) && netdev.Verify(w.link) == nil {
			return func() error { return nil }, nil
		}
		// ovs-vswitchd must let go of the old link before it sees the new one, which has the same name.
		if err := a.ovs.Withdraw(ctx, existing); err != nil {
			return nil, errors.Join(err, undo())
		}
	}
	if err := netdev.Create(w.link); err != nil {
		return nil, errors.Join(err, undo())
	}
	if err := a.bound(ctx, w.link.Owner); err != nil {
		return nil, errors.Join(err, undo())
	}
	watch.phase(phaseLink)
	if err := a.ovs.Attach(ctx, w.port); err != nil {
		return nil, errors.Join(err, undo())
	}
	watch.phase(phasePort)
	return undo, nil
}

func sameBinding(a, b vswitch.Port) bool {
	return a.Sandbox == b.Sandbox && a.IfaceID == b.IfaceID && a.IfaceIDVer == b.IfaceIDVer
}

// settle waits for OVN, and then looks whether the pod is still the one that was connected: the controller
// may have replaced what somebody else had written on it, and only its word may reach the pod's status.
func (a *Agent) settle(ctx context.Context, w wanted, watch *addWatch) error {
	if err := a.ovs.Installed(ctx, w.port.Name); err != nil {
		if errors.Is(err, vswitch.ErrNotInstalled) {
			return fmt.Errorf("%w; see ovn-controller's log on this node and `ovn-sbctl find Port_Binding logical_port=%q`",
				err, w.port.IfaceID)
		}
		return err
	}
	watch.phase(phaseInstalled)
	// The first port of a Network on a node is marked before the Network's flows are there.
	if len(w.nic.Faces) > 0 {
		if err := a.keeper.Answered(ctx, porthole.IDOf(w.nic.NetworkUID)); err != nil {
			return fmt.Errorf("wait for the flows of Network %s: %w; see ovn-controller's log on this node", w.nic.Network, err)
		}
		watch.phase(phaseAnswered)
	}
	pod, found := a.pods.get(w.pod.key)
	if !found || pod.uid != w.pod.uid {
		return errors.New("the pod was deleted meanwhile")
	}
	if nic, err := attachment.Parse(pod.attachments, pod.uid, w.port.Interface); err != nil || !nic.Equal(w.nic) {
		return errors.New("the pod's attachment changed meanwhile")
	}
	return nil
}

// result is the answer to the runtime: the addresses become the pod's status.podIPs, which are its faces where it has
// some.
func (w wanted) result() *current.Result {
	owner := w.link.Owner
	result := &current.Result{
		CNIVersion: current.ImplementedSpecVersion,
		Interfaces: []*current.Interface{
			{Name: owner.HostName()},
			{Name: owner.Interface, Mac: w.link.MAC.String(), Mtu: w.link.MTU, Sandbox: w.link.Netns},
		},
	}
	const inPod = 1
	for i, prefix := range w.link.Addresses {
		address := &current.IPConfig{Interface: current.Int(inPod), Address: *netipx.PrefixIPNet(prefix)}
		if len(w.nic.Faces) > 0 {
			// Nobody is asked for a face on the pod's link: it has no subnet and no router there.
			face := w.nic.Faces[i]
			address.Address = *netipx.PrefixIPNet(netip.PrefixFrom(face, face.BitLen()))
		}
		for _, gateway := range w.link.Gateways {
			if gateway.Is4() != prefix.Addr().Is4() {
				continue
			}
			if len(w.nic.Faces) == 0 {
				address.Gateway = gateway.AsSlice()
			}
			result.Routes = append(result.Routes, &types.Route{Dst: defaultDestination(gateway), GW: gateway.AsSlice()})
		}
		result.IPs = append(result.IPs, address)
	}
	return result
}

func joinAddresses(prefixes []netip.Prefix) string {
	texts := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		texts = append(texts, p.Addr().String())
	}
	return strings.Join(texts, " ")
}
