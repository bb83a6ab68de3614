package drift

import (
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// recorder takes the controller's decisions and keeps the last one about each object: it is the Sink that
// writes nothing.
type recorder struct {
	decide.Discard
	// Attachments of pods that should have others written on them.
	Attachments map[model.PodKey][]model.Attachment
	statuses    map[string]model.NetworkStatus
	// finalizers that should come (true) or go, by Network.
	finalizers map[string]bool
	// Nodes that should have something else written on them.
	Nodes map[string]model.NodeNetwork
	// Services that should have something else written on them, or nothing (nil).
	Services map[model.ServiceKey]*model.ServiceAddresses
	// Problems of pods.
	Problems map[model.PodKey]model.Problem
}

func newRecorder() *recorder {
	return &recorder{
		Attachments: map[model.PodKey][]model.Attachment{},
		statuses:    map[string]model.NetworkStatus{},
		finalizers:  map[string]bool{},
		Nodes:       map[string]model.NodeNetwork{},
		Services:    map[model.ServiceKey]*model.ServiceAddresses{},
		Problems:    map[model.PodKey]model.Problem{},
	}
}

// WriteAttachments implements decide.Sink, as do the others.
func (r *recorder) WriteAttachments(pod model.PodKey, _ string, attachments []model.Attachment) {
	r.Attachments[pod] = attachments
}

func (r *recorder) WriteNetworkStatus(name, _ string, status model.NetworkStatus) {
	r.statuses[name] = status
}

func (r *recorder) WriteFinalizer(name, _ string, present bool) { r.finalizers[name] = present }

func (r *recorder) WriteNode(name, _ string, n model.NodeNetwork) { r.Nodes[name] = n }

func (r *recorder) WriteServiceAddresses(service model.ServiceKey, _ string, a *model.ServiceAddresses) {
	r.Services[service] = a
}

// Event notes why a pod has no port. An unknown key is no reason.
func (r *recorder) Event(about model.ObjectRef, p model.Problem) {
	if about.Kind == "Pod" && p.Reason != model.ReasonUnknownKey {
		r.Problems[model.PodKey{Namespace: about.Namespace, Name: about.Name}] = p
	}
}

// Desired is what the objects of a cluster ask for, decided as a controller decides that has just started. It is
// made anew for each look: a controller that runs remembers more than the objects say, and two that remember
// different things would never agree about a pod that waits for its address.
type Desired struct {
	objects model.Changes
	// Graph has the rows that the objects ask for, and Decided what the controller would write to the API server.
	Graph   *graph.Graph
	Decided *recorder
	state   *decide.State
	// pending pods, nodes and Gateways may have rows, and nothing on them says which address: only the controller can tell.
	pending map[nb.Owner]bool
	// found are the differences of rows, once they were compared.
	found    []Difference
	compared bool
}

// Compile decides all objects, as a controller does that has just started, by the rows that there are.
func Compile(defaults decide.Defaults, objects model.Changes, rows func(nb.Table) []nb.Row) Desired {
	w := Desired{objects: objects, Graph: graph.New(), Decided: newRecorder(), pending: map[nb.Owner]bool{}}
	w.state = decide.NewState(defaults, w.Graph, w.Decided)
	w.state.Connected(rows)
	w.state.Apply(objects)
	for key := range w.Decided.Attachments {
		owner := nb.PodOwner(key.Namespace, key.Name)
		if _, plugged := w.Graph.Facts(owner); !plugged {
			// It had an address for a moment, while the others had not been looked at.
			delete(w.Decided.Attachments, key)
		} else if len(objects.Pods[key].Assigned) == 0 {
			w.pending[owner] = true
		}
	}
	for name := range w.Decided.Nodes {
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

// Refused counts the pods that may not attach.
func (w Desired) Refused() int {
	n := 0
	for key := range w.Decided.Problems {
		if _, plugged := w.Graph.Facts(nb.PodOwner(key.Namespace, key.Name)); !plugged {
			n++
		}
	}
	return n
}

// Port is the port of a pod that may have one.
type Port struct {
	owner nb.Owner
	Pod   model.PodKey
	// Name is that of the row; UID and Node are the pod's.
	Name, UID, Node string
}

// Ports are those of all pods, sorted by pod.
func (w Desired) Ports() []Port {
	var out []Port
	for _, key := range slices.SortedFunc(maps.Keys(w.objects.Pods), model.PodKey.Compare) {
		owner, pod := nb.PodOwner(key.Namespace, key.Name), w.objects.Pods[key]
		facts, _ := w.Graph.Facts(owner)
		for _, row := range facts.Rows {
			if lsp, ok := row.(*nb.LogicalSwitchPort); ok {
				out = append(out, Port{owner: owner, Pod: key, Name: lsp.Name, UID: pod.UID, Node: pod.Node})
			}
		}
	}
	return out
}

// podOwner is the owner of the rows of a pod, which is named as namespace/name.
func podOwner(pod string) nb.Owner {
	namespace, name, _ := strings.Cut(pod, "/")
	return nb.PodOwner(namespace, name)
}
