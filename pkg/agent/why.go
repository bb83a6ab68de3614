package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

const (
	// explainAfter is how long an ADD stays in one phase before its pod is told why, and explainEvery how often that is looked
	// at: together with the way of a pod to its node they are less than ten seconds.
	explainAfter = 4 * time.Second
	explainEvery = 2 * time.Second
	// bindingsAge is how old a remembered answer of the southbound database may be. It is less than explainAfter, so that what a pod
	// is told was read while the pod waited. bindingsTime is how long an answer may take.
	bindingsAge  = 3 * time.Second
	bindingsTime = 3 * time.Second
)

// explain tells the pod of an ADD what it waits for, until stop is called.
func (a *Agent) explain(ctx context.Context, request cni.Request, watch *addWatch) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() { // ends with ctx
		tick := time.NewTicker(explainEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			at := watch.now()
			// Where others get on it is only slow.
			if a.metrics.progress.movedSince(at.phase, time.Now().Add(-explainAfter)) {
				continue
			}
			problem, known := a.why(ctx, request, at.phase)
			if known && time.Since(at.since) >= explainAfter {
				key := request.Pod.Key()
				if p, found := a.pods.get(key); found && p.is(request.Pod) {
					a.teller.warn(ctx, key, p.uid, problem)
				}
			}
		}
	}()
	return stop
}

// why is what an ADD waits for in a phase, as far as that can be told; false when it cannot, or somebody else tells.
func (a *Agent) why(ctx context.Context, request cni.Request, phase string) (model.Problem, bool) {
	if err := a.ovs.Ready(ctx); err != nil && ctx.Err() == nil {
		return a.switchAway(err), true
	}
	switch phase {
	case phaseAttachment:
		return a.leader.without(ctx, "the pod gets its addresses when one leads")
	case phasePorthole:
		if err := a.world.Ready(); err != nil {
			return model.Problemf(model.ReasonAgentBehind, "the atoll-agent of node %s waits for the API server: %v", a.node, err), true
		}
	case phaseInstalled, phaseAnswered:
		owner := netdev.Owner{ContainerID: request.ContainerID, Interface: request.Interface}
		port, found, err := a.ovs.Find(ctx, owner.HostName())
		if err != nil || !found {
			return model.Problem{}, false
		}
		if !port.Taken {
			return a.switchAway(errors.New("it has not taken the pod's port: is ovs-vswitchd running on this node?")), true
		}
		if phase == phaseAnswered {
			return a.slowController(fmt.Sprintf("has not set up the Network's flows on node %s", a.node)), true
		}
		return a.whyNotInstalled(ctx, request, port)
	}
	return model.Problem{}, false
}

// whyNotInstalled follows a port through OVN: ovn-northd makes it known to the southbound database, and the node's ovn-controller
// claims it there and sets it up.
func (a *Agent) whyNotInstalled(ctx context.Context, request cni.Request, port vswitch.Port) (model.Problem, bool) {
	ports, registered, err := a.asked(ctx)
	switch bound, there := ports[port.IfaceID]; {
	case ctx.Err() != nil:
		return model.Problem{}, false
	case err != nil:
		return a.unread(err), true
	case !there && a.databaseAway(ctx, request):
		// The controller tells.
		return model.Problem{}, false
	case !there:
		return model.Problemf(model.ReasonNorthdBehind,
			"OVN's southbound database does not know the pod's port yet: ovn-northd is away or behind; look whether it "+
				"runs beside OVN's databases. Running pods keep their network"), true
	case !registered:
		return a.slowController(
			fmt.Sprintf(
				"has not registered node %s: it has not run yet, or under another name (external_ids:hostname or system-id "+
					"in its Open vSwitch database)", a.node)), true
	case !bound.Claimed:
		return a.slowController("has not claimed the pod's port"), true
	}
	return a.slowController("has not set up the pod's port"), true
}

// unread is what a pod is told whose port the southbound database was not read about. It blames the database only if the agent asked it.
func (a *Agent) unread(err error) model.Problem {
	if notAsked, ok := errors.AsType[*notAskedError](err); ok {
		return model.Problemf(model.ReasonAgentBehind,
			"OVN has not set up the pod's port yet, and the atoll-agent of node %s cannot say why: %v. "+
				"Running pods keep their network", a.node, notAsked)
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return model.Problemf(model.ReasonSouthboundRefused,
			"OVN has not set up the pod's port yet, and the atoll-agent of node %s cannot say why: %v: "+
				"look at its log and at those of the database's servers. Running pods keep their network", a.node, refused)
	}
	return model.Problemf(model.ReasonSouthboundUnreachable,
		"node %s does not reach OVN's southbound database (%v): look whether its ovsdb-server runs. Running pods keep their network", a.node, err)
}

func (a *Agent) slowController(what string) model.Problem {
	return model.Problemf(model.ReasonOVNControllerBehind,
		"ovn-controller of node %s %s: it is away or behind; look whether it runs, and at its log", a.node, what)
}

func (a *Agent) switchAway(err error) model.Problem {
	return model.Problemf(model.ReasonSwitchAway, "Open vSwitch of node %s: %v", a.node, err)
}

// databaseAway reports whether the controller says of the pod's Network that the northbound database is away.
func (a *Agent) databaseAway(ctx context.Context, request cni.Request) bool {
	p, _ := a.pods.get(request.Pod.Key())
	nic, err := attachment.Parse(p.attachments, p.uid, request.Interface)
	if err != nil || a.networks == nil {
		return false
	}
	u, err := a.networks.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).Get(ctx, nic.Network,
		metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return false
	}
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return phase == string(v1alpha1.NetworkUnknown)
}

// bindings is what the southbound database said last of the ports that are asked for on this node. One asks for all ADDs that
// wait.
type bindings struct {
	southbound *southbound

	mu         sync.Mutex
	read       time.Time
	ports      map[string]ovsdb.Bound
	registered bool
	err        error
}

func (a *Agent) asked(ctx context.Context) (ports map[string]ovsdb.Bound, registered bool, err error) {
	b := &a.bindings
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.read) > bindingsAge {
		ctx, cancel := context.WithTimeout(ctx, bindingsTime)
		defer cancel()
		b.err = b.southbound.read(ctx, func(r *ovsdb.Reader) (err error) {
			b.ports, b.registered, err = r.Asked(ctx, a.node)
			return err
		})
		b.read = time.Now()
	}
	return b.ports, b.registered, b.err
}
