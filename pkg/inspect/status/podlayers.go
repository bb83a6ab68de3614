package status

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// listPods are the pods of a namespace that are in a Network or ask to be, without layers, sorted; of all namespaces if it is empty.
func listPods(h snapshot.Held, namespace string) []api.Pod {
	out := []api.Pod{}
	for _, key := range slices.SortedFunc(maps.Keys(h.Objects.Pods), model.PodKey.Compare) {
		if h.Over() {
			break
		}
		if namespace == "" || key.Namespace == namespace {
			out = append(out, briefPod(h, h.Objects.Pods[key]))
		}
	}
	return out
}

func briefPod(h snapshot.Held, p *model.Pod) api.Pod {
	out := emptyPod(p.Key)
	out.Status.Node = p.Node
	out.Status.Network, _ = h.Chosen(p)
	if a := h.Attachment(p); a != nil {
		out.Status.Network, out.Status.Subnet, out.Status.MAC = a.Network, a.Subnet, a.MAC
		for _, own := range a.Addresses {
			out.Status.Addresses = append(out.Status.Addresses, own.Addr().String())
		}
		out.Status.Faces = snapshot.Texts(a.Faces)
	}
	return out
}

func emptyPod(key model.PodKey) (out api.Pod) {
	out.APIVersion, out.Kind, out.Namespace, out.Name = api.GroupVersion().String(), "Pod", key.Namespace, key.Name
	return out
}

// podFacts is what is known of a pod beside objects that are held.
type podFacts struct {
	object *core.Pod
	// events are its warnings, the newest first; told says why they are not known.
	events []core.Event
	told   error
	// rows are nil when no database was asked.
	rows *podRows
}

// layerer goes through the layers of a pod.
type layerer struct {
	snapshot.Held
	podFacts
	pod *model.Pod
	out api.Pod
}

// The layers' names.
const (
	layerObject     = "object"
	layerNetwork    = "network"
	layerAddress    = "address"
	layerFace       = "face"
	layerNorthbound = "northbound"
	layerSouthbound = "southbound"
	layerNode       = "node"
	layerPolicies   = "policies"
	layerServices   = "services"
)

// podLayers are all layers of a pod.
func podLayers(h snapshot.Held, f podFacts) api.Pod {
	key := model.PodKey{Namespace: f.object.Namespace, Name: f.object.Name}
	l := &layerer{Held: h, podFacts: f, pod: intake.Pod(f.object), out: emptyPod(key)}
	if l.pod == nil {
		l.out.Status.Node = f.object.Spec.NodeName
		l.needsNothing()
		return l.out
	}
	l.out = briefPod(h, l.pod)
	l.add(layerObject, api.LayerOK, fmt.Sprintf("%s, on node %s", phaseOf(f.object), l.pod.Node), "")
	l.network()
	l.address()
	l.face()
	l.northbound()
	l.southbound()
	l.node()
	l.policies()
	l.services()
	l.out.Status.Verdict = verdictOf(l.out)
	return l.out
}

func (l *layerer) add(name string, state api.LayerState, what, next string) {
	l.out.Status.Layers = append(l.out.Status.Layers, api.Layer{Name: name, State: state, What: what, Next: next})
}

// verdictOf is the first layer where something is missing.
func verdictOf(p api.Pod) string {
	for _, l := range p.Status.Layers {
		if l.State == api.LayerMissing {
			text := l.Name + ": " + l.What
			if l.Next != "" {
				text += ". Next: " + l.Next
			}
			return text
		}
	}
	unknown := []string{}
	for _, l := range p.Status.Layers {
		if l.State == api.LayerUnknown {
			unknown = append(unknown, l.Name)
		}
	}
	if len(unknown) > 0 {
		return "nothing is missing, as far as is known; not known: " + strings.Join(unknown, ", ")
	}
	return "every layer is there"
}

func phaseOf(p *core.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady && c.Status == core.ConditionTrue {
			return "Ready"
		}
	}
	return string(p.Status.Phase)
}

// needsNothing says why Atoll has nothing to do with the pod.
func (l *layerer) needsNothing() {
	p := l.object
	switch {
	case p.Spec.HostNetwork:
		l.add(layerObject, api.LayerNone, "it is on its node's own network (hostNetwork)", "")
		l.out.Status.Verdict = "it is on its node's own network: it is in no Network"
	case p.Status.Phase == core.PodSucceeded, p.Status.Phase == core.PodFailed:
		l.add(layerObject, api.LayerNone, "it has finished: "+string(p.Status.Phase), "")
		l.out.Status.Verdict = "it has finished, and needs no network"
	default:
		why := []string{"it has no node yet"}
		for _, c := range p.Status.Conditions {
			if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
				why = append(why, c.Message)
			}
		}
		l.add(layerObject, api.LayerMissing, strings.Join(why, ": "), fmt.Sprintf("kubectl describe pod -n %s %s", p.Namespace, p.Name))
		l.out.Status.Verdict = verdictOf(l.out)
	}
}

// network is whether there is the one that it asks for, and admits it. To who may see the pod, a Network that does not admit it
// is as one that does not exist: it may be somebody else's.
func (l *layerer) network() {
	name, by := l.Chosen(l.pod)
	if a := l.Attachment(l.pod); a != nil && a.Network != name {
		l.add(layerNetwork, api.LayerOK, fmt.Sprintf("%s, where it has its addresses", a.Network), "")
		return
	}
	n, ns := l.Objects.Networks[name], l.Objects.Namespaces[l.pod.Key.Namespace]
	if (n == nil && l.Unread["networks"]) || (ns == nil && l.Unread["namespaces"]) {
		l.add(layerNetwork, api.LayerUnknown, fmt.Sprintf("%s, by %s; Networks or namespaces cannot be read", name, by), "")
		return
	}
	if n == nil || ns == nil || !l.Admits(n, ns) {
		l.add(layerNetwork, api.LayerMissing,
			fmt.Sprintf("Network %q, which %s names, does not exist or does not admit namespace %q", name, by, l.pod.Key.Namespace),
			"correct the name, or have the Network admit the namespace")
		return
	}
	s := Summary(l.Held, n).Status
	switch s.Phase {
	case "Ready", "Degraded":
		l.add(layerNetwork, api.LayerOK, fmt.Sprintf("%s (%s), by %s", name, s.Type, by), "")
	case "":
		l.add(layerNetwork, api.LayerUnknown, name+" has no status", "atoll status")
	default:
		l.add(layerNetwork, api.LayerMissing, fmt.Sprintf("%s is %s: %s", name, s.Phase, s.Message), "atoll network "+name)
	}
}

func (l *layerer) address() {
	a := l.Attachment(l.pod)
	if a == nil {
		what, next := l.whyNot("it has none")
		l.add(layerAddress, api.LayerMissing, what, next)
		return
	}
	what := fmt.Sprintf("%s in subnet %s, MAC %s", strings.Join(l.out.Status.Addresses, ", "), a.Subnet, a.MAC)
	if e := l.newest("atoll-controller"); e != nil && phaseOf(l.object) != "Ready" {
		what += "; the controller says: " + e.Reason + ": " + e.Message
	}
	l.add(layerAddress, api.LayerOK, what, "")
}

// whyNot is what Events say of what the controller did not do.
func (l *layerer) whyNot(what string) (text, next string) {
	if e := l.newest("atoll-controller"); e != nil {
		return fmt.Sprintf("%s: %s: %s", what, e.Reason, e.Message), "do what the message says; docs/troubleshooting/events.md lists the reasons"
	}
	if e := l.newest(""); e != nil {
		return fmt.Sprintf("%s: %s: %s", what, e.Reason, e.Message), "atoll status"
	}
	if l.told != nil {
		return fmt.Sprintf("%s; its Events cannot be read: %v", what, l.told), "atoll status"
	}
	return what + ", and no Event says why", "atoll status: does a controller lead?"
}

// newest is the newest warning by a component; by anybody if that is empty. Nil when there is none.
func (l *layerer) newest(component string) *core.Event {
	for i, e := range l.events {
		if component == "" || e.Source.Component == component || e.ReportingController == component {
			return &l.events[i]
		}
	}
	return nil
}

func (l *layerer) face() {
	a := l.Attachment(l.pod)
	var told []netip.Addr
	for _, ip := range l.object.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			told = append(told, addr)
		}
	}
	switch {
	case a == nil:
		l.add(layerFace, api.LayerNone, "it comes with the address", "")
		return
	case len(a.Faces) == 0:
		l.add(layerFace, api.LayerNone, "none: its Network is flat, and Kubernetes knows it by its own address", "")
		return
	case len(told) == 0:
		what, next := "the kubelet has not reported an address: the pod's sandbox has not been made", fmt.Sprintf("kubectl describe pod -n %s %s",
			l.pod.Key.Namespace, l.pod.Key.Name)
		if e := l.newest("kubelet"); e != nil {
			what = fmt.Sprintf("%s: %s: %s", what, e.Reason, e.Message)
		} else if e := l.newest("atoll-agent"); e != nil {
			what = fmt.Sprintf("%s: %s: %s", what, e.Reason, e.Message)
		}
		l.add(layerFace, api.LayerMissing, what, next)
		return
	}
	for _, face := range a.Faces {
		if !slices.Contains(told, face) {
			l.add(layerFace, api.LayerMissing,
				fmt.Sprintf("the controller gave %s, and Kubernetes knows the pod by %s", strings.Join(snapshot.Texts(a.Faces), ", "),
					strings.Join(snapshot.Texts(told), ", ")), "make the pod anew")
			return
		}
	}
	l.add(layerFace, api.LayerOK, strings.Join(snapshot.Texts(a.Faces), ", ")+", as in status.podIPs", "")
}

func (l *layerer) portName() string {
	if a := l.Attachment(l.pod); a != nil {
		return model.AttachmentKey{Pod: l.pod.Key, Interface: a.Interface}.PortName()
	}
	return l.pod.Key.First().PortName()
}

func (l *layerer) northbound() {
	const next = "atoll status; atoll check compares all rows"
	switch a := l.Attachment(l.pod); {
	case l.rows == nil:
		l.add(layerNorthbound, api.LayerUnknown, "the northbound database was not asked", "")
	case l.rows.northboundError != nil:
		l.add(layerNorthbound, api.LayerUnknown, snapshot.NotAnswering("northbound"), "atoll status")
	case l.rows.port == nil && a == nil:
		l.add(layerNorthbound, api.LayerNone, "it has no port while it has no address", "")
	case l.rows.port == nil:
		l.add(layerNorthbound, api.LayerMissing, "there is no Logical_Switch_Port "+l.portName(), next)
	case a == nil:
		l.add(layerNorthbound, api.LayerMissing, fmt.Sprintf("there is a Logical_Switch_Port %s, and the pod has no address", l.portName()), next)
	default:
		have := strings.Join(l.rows.port.addresses, ", ")
		for _, word := range append([]string{a.MAC}, l.out.Status.Addresses...) {
			if !slices.Contains(strings.Fields(have), word) {
				l.add(layerNorthbound, api.LayerMissing, fmt.Sprintf("Logical_Switch_Port %s has %q, without %s", l.portName(), have, word), next)
				return
			}
		}
		l.add(layerNorthbound, api.LayerOK, "Logical_Switch_Port "+l.portName(), "")
	}
}

func (l *layerer) southbound() {
	name := "Port_Binding " + l.portName()
	switch {
	case l.rows == nil:
		l.add(layerSouthbound, api.LayerUnknown, "the southbound database was not asked", "")
		return
	case l.rows.southboundError != nil:
		l.add(layerSouthbound, api.LayerUnknown, snapshot.NotAnswering("southbound"), "atoll status")
		return
	case l.rows.binding == nil && l.rows.port == nil:
		l.add(layerSouthbound, api.LayerNone, "it has no port", "")
		return
	case l.rows.binding == nil:
		l.add(layerSouthbound, api.LayerMissing, "there is no "+name, "does ovn-northd run?")
		return
	}
	b, node := l.rows.binding, l.pod.Node
	switch {
	case b.Chassis == "":
		l.add(layerSouthbound, api.LayerMissing, fmt.Sprintf("%s is bound by no chassis", name),
			fmt.Sprintf("do atoll-agent and ovn-controller run on node %s?", node))
	case !snapshot.BoundOn(*b, node, l.Objects.Nodes):
		l.add(layerSouthbound, api.LayerMissing, fmt.Sprintf("%s is bound by chassis %s, and the pod is on node %s", name, b.Chassis, node),
			"is the chassis called like its node?")
	case !b.Up:
		l.add(layerSouthbound, api.LayerMissing, fmt.Sprintf("%s is bound by node %s and not up", name, node),
			fmt.Sprintf("what does ovn-controller's log on node %s say?", node))
	default:
		l.add(layerSouthbound, api.LayerOK, fmt.Sprintf("%s, up on chassis %s", name, b.Chassis), "")
	}
}

// node is the agent's word. Whether it runs at this moment, its report does not tell.
func (l *layerer) node() {
	node := l.pod.Node
	switch report := l.Objects.Reports[node]; {
	case l.Objects.Nodes[node] == nil:
		l.add(layerNode, api.LayerUnknown, fmt.Sprintf("node %s is not known", node), "kubectl get node "+node)
	case report == nil:
		l.add(layerNode, api.LayerMissing, fmt.Sprintf("no atoll-agent has reported from node %s", node),
			"kubectl -n atoll-system get pods -o wide")
	default:
		l.add(layerNode, api.LayerOK, fmt.Sprintf("%s, atoll-agent %s", node, report.Version), "")
	}
}

func (l *layerer) policies() {
	target := l.Target(l.pod)
	for key, p := range l.Objects.Policies {
		if p.Subject.Matches(target) {
			l.out.Status.Policies = append(l.out.Status.Policies, key.String())
		}
	}
	slices.Sort(l.out.Status.Policies)
	if len(l.out.Status.Policies) == 0 {
		l.add(layerPolicies, api.LayerNone, "none selects it", "")
		return
	}
	l.add(layerPolicies, api.LayerOK, strings.Join(l.out.Status.Policies, ", "), "")
}

func (l *layerer) services() {
	found := map[string]bool{}
	for _, s := range l.Objects.Slices {
		for _, e := range s.Endpoints {
			if e.Pod == l.pod.Key && e.PodUID == l.pod.UID && s.Service != "" {
				key := model.ServiceKey{Namespace: s.Key.Namespace, Name: s.Service}
				found[key.String()] = found[key.String()] || e.Ready
			}
		}
	}
	l.out.Status.Services = slices.Sorted(maps.Keys(found))
	if len(found) == 0 {
		l.add(layerServices, api.LayerNone, "none has it as an endpoint", "")
		return
	}
	var words []string
	for _, name := range l.out.Status.Services {
		if !found[name] {
			name += " (not ready)"
		}
		words = append(words, name)
	}
	l.add(layerServices, api.LayerOK, strings.Join(words, ", "), "")
}
