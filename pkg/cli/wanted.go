package cli

import (
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// recorder takes the controller's decisions and keeps the last one about each object: it is the Sink that
// writes nothing.
type recorder struct {
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

// WriteAttachments implements controller.Sink, as all that follow.
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

func (r *recorder) Forget(model.PodKey) {}

// PodEvent notes why a pod has no port. An unknown key is no reason.
func (r *recorder) PodEvent(pod model.PodKey, _ string, p model.Problem) {
	if p.Reason != model.ReasonUnknownKey {
		r.problems[pod] = p
	}
}

func (r *recorder) NetworkEvent(string, string, model.Problem) {}

func (r *recorder) NodeEvent(string, string, model.Problem) {}

func (r *recorder) NamespaceEvent(string, string, model.Problem) {}

func (r *recorder) ServiceEvent(model.ServiceKey, string, model.Problem) {}

func (r *recorder) WriteGatewayClassStatus(string, string, model.GatewayClassStatus) {}

func (r *recorder) WriteGatewayStatus(model.GatewayKey, string, model.GatewayStatus) {}

func (r *recorder) WriteRouteStatus(model.RouteKey, string, model.RouteStatus) {}
func (r *recorder) PolicyEvent(model.PolicyKey, string, model.Problem)         {}

func (r *recorder) WriteViews(map[model.ViewKey]*model.View)         {}
func (r *recorder) WriteMirrors(map[model.ServiceKey][]model.Mirror) {}

// wanted is what the objects of a cluster ask for, decided as a controller decides that has just started. It is
// made anew for each look: a controller that runs remembers more than the objects say, and two that remember
// different things would never agree about a pod that waits for its address.
type wanted struct {
	objects model.Changes
	graph   *graph.Graph
	state   *controller.State
	said    *recorder
	// pending pods, nodes and Gateways may have rows, and nothing on them says which address: only the controller can tell.
	pending map[nb.Owner]bool
}

func compileAll(defaults controller.Defaults, objects model.Changes) wanted {
	w := wanted{objects: objects, graph: graph.New(), said: newRecorder(), pending: map[nb.Owner]bool{}}
	w.state = controller.NewState(defaults, w.graph, w.said)
	w.state.Apply(objects)
	for key := range w.said.attachments {
		owner := nb.PodOwner(key.Namespace, key.Name)
		if _, plugged := w.graph.Facts(owner); !plugged {
			// It had an address for a moment, while the others had not been looked at.
			delete(w.said.attachments, key)
		} else if len(objects.Pods[key].Assigned) == 0 {
			w.pending[owner] = true
		}
	}
	for name := range w.said.nodes {
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
func (w wanted) refused() int {
	n := 0
	for key := range w.said.problems {
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
func (w wanted) ports() []port {
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

// merge brings objects up to date with what has changed.
func merge(objects, changes model.Changes) {
	mergeKind(objects.Networks, changes.Networks)
	mergeKind(objects.Namespaces, changes.Namespaces)
	mergeKind(objects.Pods, changes.Pods)
	mergeKind(objects.Nodes, changes.Nodes)
	mergeKind(objects.Reports, changes.Reports)
	mergeKind(objects.Services, changes.Services)
	mergeKind(objects.Slices, changes.Slices)
	mergeKind(objects.Classes, changes.Classes)
	mergeKind(objects.Gateways, changes.Gateways)
	mergeKind(objects.Routes, changes.Routes)
	mergeKind(objects.Grants, changes.Grants)
	mergeKind(objects.Policies, changes.Policies)
}

func mergeKind[K comparable, V any](to, from map[K]*V) {
	for k, v := range from {
		if v == nil {
			delete(to, k)
		} else {
			to[k] = v
		}
	}
}
