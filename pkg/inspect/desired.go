package inspect

import (
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// recorder takes the controller's decisions and keeps the last one about each object: it is the Sink that
// writes nothing.
type recorder struct {
	decide.Discard
	attachments map[model.PodKey][]model.Attachment
	statuses    map[string]model.NetworkStatus
	// finalizers that should come (true) or go, by Network.
	finalizers map[string]bool
	// nodes that should have something else written on them.
	nodes map[string]model.NodeNetwork
	// services that should have something else written on them, or nothing (nil).
	services map[model.ServiceKey]*model.ServiceAddresses
	// problems of pods.
	problems map[model.PodKey]model.Problem
}

func newRecorder() *recorder {
	return &recorder{
		attachments: map[model.PodKey][]model.Attachment{},
		statuses:    map[string]model.NetworkStatus{},
		finalizers:  map[string]bool{},
		nodes:       map[string]model.NodeNetwork{},
		services:    map[model.ServiceKey]*model.ServiceAddresses{},
		problems:    map[model.PodKey]model.Problem{},
	}
}

// WriteAttachments implements decide.Sink, as do the others.
func (r *recorder) WriteAttachments(pod model.PodKey, _ string, attachments []model.Attachment) {
	r.attachments[pod] = attachments
}

func (r *recorder) WriteNetworkStatus(name, _ string, status model.NetworkStatus) {
	r.statuses[name] = status
}

func (r *recorder) WriteFinalizer(name, _ string, present bool) { r.finalizers[name] = present }

func (r *recorder) WriteNode(name, _ string, n model.NodeNetwork) { r.nodes[name] = n }

func (r *recorder) WriteServiceAddresses(service model.ServiceKey, _ string, a *model.ServiceAddresses) {
	r.services[service] = a
}

// Event notes why a pod has no port. An unknown key is no reason.
func (r *recorder) Event(about model.ObjectRef, p model.Problem) {
	if about.Kind == "Pod" && p.Reason != model.ReasonUnknownKey {
		r.problems[model.PodKey{Namespace: about.Namespace, Name: about.Name}] = p
	}
}

// desired is what the objects of a cluster ask for, decided as a controller decides that has just started. It is
// made anew for each look: a controller that runs remembers more than the objects say, and two that remember
// different things would never agree about a pod that waits for its address.
type desired struct {
	objects model.Changes
	graph   *graph.Graph
	state   *decide.State
	decided *recorder
	// pending pods, nodes and Gateways may have rows, and nothing on them says which address: only the controller can tell.
	pending map[nb.Owner]bool
	// found are the differences of rows, once they were compared.
	found    []Difference
	compared bool
}

func compileAll(defaults decide.Defaults, objects model.Changes, rows func(nb.Table) []nb.Row) desired {
	w := desired{objects: objects, graph: graph.New(), decided: newRecorder(), pending: map[nb.Owner]bool{}}
	w.state = decide.NewState(defaults, w.graph, w.decided)
	w.state.Connected(rows)
	w.state.Apply(objects)
	for key := range w.decided.attachments {
		owner := nb.PodOwner(key.Namespace, key.Name)
		if _, plugged := w.graph.Facts(owner); !plugged {
			// It had an address for a moment, while the others had not been looked at.
			delete(w.decided.attachments, key)
		} else if len(objects.Pods[key].Assigned) == 0 {
			w.pending[owner] = true
		}
	}
	for name := range w.decided.nodes {
		if objects.Nodes[name].Assigned == nil {
			w.pending[nb.NodeOwner(name)] = true
		}
	}
	for key, g := range objects.Gateways {
		if owner := nb.GatewayOwner(key.Namespace, key.Name); len(g.Held) == 0 {
			w.pending[owner] = true
		}
	}
	return w
}

// refused counts the pods that may not attach.
func (w desired) refused() int {
	n := 0
	for key := range w.decided.problems {
		if _, plugged := w.graph.Facts(nb.PodOwner(key.Namespace, key.Name)); !plugged {
			n++
		}
	}
	return n
}

// port is the port of a pod that may have one.
type port struct {
	owner     nb.Owner
	pod       model.PodKey
	name      string
	uid, node string
}

// ports are those of all pods, sorted by pod.
func (w desired) ports() []port {
	var out []port
	for _, key := range slices.SortedFunc(maps.Keys(w.objects.Pods), model.PodKey.Compare) {
		owner, pod := nb.PodOwner(key.Namespace, key.Name), w.objects.Pods[key]
		facts, _ := w.graph.Facts(owner)
		for _, row := range facts.Rows {
			if lsp, ok := row.(*nb.LogicalSwitchPort); ok {
				out = append(out, port{owner: owner, pod: key, name: lsp.Name, uid: pod.UID, node: pod.Node})
			}
		}
	}
	return out
}
