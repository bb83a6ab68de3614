// Package views decides what namespaces see of Networks: of those that admit them, and of those that their pods are in.
package views

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/attach"
	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// every is how often views are compared with what they show, however many pods come and go: a namespace's pods are counted for
// it, and a view of many pods is ten kilobytes. Once a second, writing them was a tenth of what the controller does while pods
// come.
const every = 3 * time.Second

// Networks are those that are seen.
type Networks interface {
	// Names are those of all Networks, in no order.
	Names() []string
	// Admits reports whether there is a Network of that name for a namespace.
	Admits(name string, ns *model.Namespace) bool
	// Exists reports whether there is one.
	Exists(name string) bool
	// View is what everybody sees who sees the Network, which exists.
	View(name string) model.View
}

// Pods are those that are counted.
type Pods interface {
	// Attachment is what a pod holds in a Network; nil while it holds nothing there. Waiting: it belongs there and has no port.
	Attachment(pod model.PodKey, network string) (a *model.Attachment, waiting bool)
}

// Sink takes views; nil takes one away. After the first call, views that no call named are wanted no more.
type Sink interface {
	WriteViews(changed map[model.ViewKey]*model.View)
}

// Stage decides about views.
type Stage struct {
	cluster  *cluster.Cluster
	networks Networks
	pods     Pods
	sink     Sink
	queue    *pass.Queue[model.ViewKey]
	// urgent: some in the queue may be of a namespace that has lost its right.
	urgent bool
	// shown is what the sink was told last, and namespaces who sees a Network, so that its changes find them.
	shown      map[model.ViewKey]model.View
	namespaces pass.Index[string, string]
	last       time.Time
	// began: the sink knows that what it was not told of is wanted no more.
	began bool
}

// New makes the stage. It hears of Networks that changed, and perhaps whom they admit; of those that everybody sees as another;
// and of pods.
func New(
	c *cluster.Cluster, networks Networks, pods Pods, sink Sink, stage pass.Stage,
	changed, seen *pass.Topic[string], podChanged *pass.Topic[attach.Place],
) *Stage {
	v := &Stage{
		cluster: c, networks: networks, pods: pods, sink: sink, queue: pass.NewQueue[model.ViewKey](stage),
		shown: map[model.ViewKey]model.View{}, namespaces: pass.Index[string, string]{},
	}
	c.NamespaceChanged.Follow(stage, v.namespaceChanged)
	changed.Follow(stage, v.networkChanged)
	seen.Follow(stage, v.markViewers)
	podChanged.Follow(stage, func(p attach.Place) { v.queue.Mark(model.ViewKey{Namespace: p.Pod.Namespace, Network: p.Network}) })
	return v
}

// markViewers marks those who see a Network.
func (v *Stage) markViewers(name string) {
	for namespace := range v.namespaces[name] {
		v.queue.Mark(model.ViewKey{Namespace: namespace, Network: name})
	}
}

// namespaceChanged: a namespace's labels have changed, and with them perhaps what it may use. (Where it has pods it sees by these.)
func (v *Stage) namespaceChanged(namespace string) {
	for _, name := range v.networks.Names() {
		v.mark(namespace, name)
	}
}

// networkChanged: a Network has changed, and perhaps whom it admits.
func (v *Stage) networkChanged(name string) {
	for namespace := range v.cluster.Namespaces {
		v.mark(namespace, name)
	}
	v.markViewers(name)
	v.urgent = true
}

// mark queues the view of a Network in a namespace, if it is shown there or must be. Of all pairs of both these are few.
func (v *Stage) mark(namespace, name string) {
	key := model.ViewKey{Namespace: namespace, Network: name}
	if _, shown := v.shown[key]; shown || v.networks.Admits(name, v.cluster.Namespaces[namespace]) {
		v.queue.Mark(key)
		v.urgent = true
	}
}

// Due is when views are compared next; the zero time when nothing has changed.
func (v *Stage) Due() time.Time {
	if v.queue.Len() == 0 {
		return time.Time{}
	}
	return v.last.Add(every)
}

// Show hands out the views that have changed. The first call names all that are wanted.
func (v *Stage) Show(now time.Time) {
	if v.began && !v.urgent && (v.queue.Len() == 0 || now.Before(v.Due())) {
		return
	}
	changed := map[model.ViewKey]*model.View{}
	common := map[string]model.View{}
	for key := range v.queue.Take() {
		old, had := v.shown[key]
		if !v.sees(key) {
			if had {
				changed[key] = nil
				v.forget(key)
			}
			continue
		}
		if _, known := common[key.Network]; !known {
			common[key.Network] = v.networks.View(key.Network)
		}
		view := v.withPods(key, common[key.Network])
		if had && reflect.DeepEqual(old, view) {
			continue
		}
		changed[key], v.shown[key] = &view, view
		v.namespaces.Add(key.Network, key.Namespace)
	}
	v.last, v.urgent = now, false
	if len(changed) > 0 || !v.began {
		v.began = true
		v.sink.WriteViews(changed)
	}
}

func (v *Stage) forget(key model.ViewKey) {
	delete(v.shown, key)
	v.namespaces.Drop(key.Network, key.Namespace)
}

// sees reports whether a namespace sees a Network: it may use it, or has a pod there, whose address it keeps.
func (v *Stage) sees(key model.ViewKey) bool {
	ns := v.cluster.Namespaces[key.Namespace]
	if ns == nil || !v.networks.Exists(key.Network) {
		return false
	}
	if v.networks.Admits(key.Network, ns) {
		return true
	}
	for pod := range v.cluster.PodsIn[key.Namespace] {
		if a, _ := v.pods.Attachment(pod, key.Network); a != nil {
			return true
		}
	}
	return false
}

// withPods adds what is the namespace's own.
func (v *Stage) withPods(key model.ViewKey, view model.View) model.View {
	view.Subnets = slices.Clone(view.Subnets)
	type holder struct {
		name       string
		attachment *model.Attachment
	}
	var holders []holder
	for pod := range v.cluster.PodsIn[key.Namespace] {
		a, waiting := v.pods.Attachment(pod, key.Network)
		if waiting {
			view.Waiting++
		}
		if a == nil {
			continue
		}
		view.Pods++
		holders = append(holders, holder{pod.Name, a})
		for _, prefix := range a.Addresses {
			for i := range view.Subnets {
				if view.Subnets[i].CIDR.Contains(prefix.Addr()) {
					view.Subnets[i].Used++
				}
			}
		}
	}
	slices.SortFunc(holders, func(a, b holder) int { return strings.Compare(a.name, b.name) })
	for _, h := range holders[:min(len(holders), model.MaxViewed)] {
		viewed := model.ViewedPod{Name: h.name, Subnet: h.attachment.Subnet}
		for _, prefix := range h.attachment.Addresses {
			viewed.Addresses = append(viewed.Addresses, prefix.Addr())
		}
		view.Addresses = append(view.Addresses, viewed)
	}
	return view
}
