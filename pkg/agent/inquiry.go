package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/agent/flows"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/daemon"
)

// inquiry answers what atoll-inspect asks about pods of this node (docs/design/inspect.md).
type inquiry struct {
	*Agent
	captures *capture.Keeper
}

func (a *Agent) inquiry() inquiry { return inquiry{a, &capture.Keeper{}} }

// certificateDir is where the agent's certificate for it is.
func certificateDir(config Config) string { return filepath.Join(config.RunDir, "certificates") }

// keepCertificate keeps the agent's certificate as a server, for the address where it listens.
func (a *Agent) keepCertificate(ctx context.Context, config Config, client kubernetes.Interface) error {
	address, err := netip.ParseAddrPort(nodeapi.ListenAddress(config.InspectAddress))
	if err != nil {
		return fmt.Errorf("read the address for atoll-inspect: %w", err)
	}
	return certs.Keep(ctx, certs.KeeperConfig{
		Client: client, Log: a.log, Signer: certs.SignerAgent, Node: config.Node, Addresses: []netip.Addr{address.Addr().Unmap()},
		Dir: certificateDir(config),
	})
}

// serveInspection answers atoll-inspect until ctx ends.
func (a *Agent) serveInspection(ctx context.Context, config Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", nodeapi.ListenAddress(config.InspectAddress))
	if err != nil {
		return fmt.Errorf("listen for atoll-inspect: %w", err)
	}
	server := nodeapi.Server(nodeapi.Handler(a.inquiry(), a.log), a.log)
	server.TLSConfig = certs.AgentServer(certificateDir(config), a.world.ShutOut)
	return daemon.Serve(ctx, server, listener, 0)
}

// Ping implements nodeapi.Answers.
func (i inquiry) Ping(ctx context.Context, pod nodeapi.Pod, spec ping.Spec, each func(ping.Reply)) error {
	netns, err := i.enter(ctx, pod)
	if err != nil {
		return err
	}
	defer func() { _ = netns.Close() }()
	return ping.Run(ctx, spec, func(do func() error) error { return netns.Do(func(ns.NetNS) error { return do() }) }, each)
}

// Flows implements nodeapi.Answers.
func (i inquiry) Flows(ctx context.Context, q model.FlowQuestion, each func(model.Flow) error) error {
	err := i.flows.Ask(ctx, q, each)
	switch {
	case errors.Is(err, flows.ErrOff), errors.Is(err, flows.ErrBlind):
		return &nodeapi.RefusedError{What: err.Error()}
	case err != nil:
		return &nodeapi.RefusedError{What: err.Error(), Temporary: true}
	}
	return nil
}

// Capture implements nodeapi.Answers. Each part finds the pod anew, and so does each moment of it: a capture ends with its pod.
func (i inquiry) Capture(ctx context.Context, q nodeapi.CaptureQuestion, each func(nodeapi.CaptureLine) error) error {
	lives := func() error {
		_, err := i.link(q.Pod)
		return err
	}
	// The capture of an earlier part is that of the pod's UID.
	if err := lives(); err != nil {
		return err
	}
	var failed error
	outcome, err := i.captures.Run(ctx, capture.Owner{User: q.User, PodUID: q.Pod.UID, ID: q.Part.ID}, q.Spec, q.Part, capture.Means{
		Open: func() (*capture.Socket, error) {
			netns, err := i.enter(ctx, q.Pod)
			if err != nil {
				return nil, err
			}
			defer func() { _ = netns.Close() }()
			return capture.Open(q.Spec, func(do func() error) error { return netns.Do(func(ns.NetNS) error { return do() }) })
		},
		Lives: lives,
		Begun: func() { failed = each(nodeapi.CaptureLine{Begun: true}) },
		Each: func(u capture.Update) error {
			if failed == nil {
				failed = each(nodeapi.CaptureLine{Update: &u})
			}
			return failed
		},
	})
	switch {
	case errors.Is(err, capture.ErrInterface), errors.Is(err, capture.ErrUnknown):
		return &nodeapi.RefusedError{What: err.Error()}
	case err != nil:
		if busy, ok := errors.AsType[*capture.BusyError](err); ok {
			return &nodeapi.RefusedError{What: busy.Error(), Temporary: true}
		}
		return err
	}
	return each(nodeapi.CaptureLine{Outcome: &outcome})
}

// link returns the interface of a pod, the newest if the sandbox was made anew. It finds it by the pod's UID, because names of
// pods and containers are used again.
func (i inquiry) link(pod nodeapi.Pod) (netdev.Owned, error) {
	refused := func(format string, args ...any) error {
		return &nodeapi.RefusedError{What: fmt.Sprintf(format, args...)}
	}
	if !i.pods.inSync() {
		return netdev.Owned{}, &nodeapi.RefusedError{
			What: "the agent has only just begun, and does not know the pods of its node yet", Temporary: true,
		}
	}
	known, lives := i.pods.getByUID(pod.UID)
	if !lives || known.key != pod.Key() || known.uid != pod.UID {
		return netdev.Owned{}, refused("pod %s with UID %s is not on node %s: it may have been deleted, or made anew", pod.Key(), pod.UID, i.node)
	}
	all, err := netdev.List()
	if err != nil {
		return netdev.Owned{}, err
	}
	all = slices.DeleteFunc(all, func(o netdev.Owned) bool { return o.PodUID != pod.UID || o.Interface != model.DefaultInterface })
	if len(all) == 0 {
		return netdev.Owned{}, refused(
			"pod %s has no interface of Atoll's on node %s: it may not have begun, have ended, or use its node's network", pod.Key(), i.node)
	}
	return slices.MaxFunc(all, func(a, b netdev.Owned) int { return a.Index - b.Index }), nil
}

// enter opens the network namespace of a pod.
func (i inquiry) enter(ctx context.Context, pod nodeapi.Pod) (ns.NetNS, error) {
	link, err := i.link(pod)
	if err != nil {
		return nil, err
	}
	path := link.Netns
	if path == "" {
		// It did not fit into the link's alias.
		port, found, err := i.ovs.Find(ctx, link.HostName())
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, &nodeapi.RefusedError{What: fmt.Sprintf("pod %s has no port in Open vSwitch on node %s", pod.Key(), i.node), Temporary: true}
		}
		path = port.Netns
	}
	netns, err := netdev.Enter(link, path)
	if err != nil {
		return nil, &nodeapi.RefusedError{What: fmt.Sprintf("pod %s has gone, or is being made: %v", pod.Key(), err), Temporary: true}
	}
	return netns, nil
}
