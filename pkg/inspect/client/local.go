package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// reading lists the objects that the user may see, and remembers which the user may not list.
type reading struct {
	held   snapshot.Held
	unread []string
	shown  map[string]atoll.NetworkStatus
}

// locally returns sources that hold only what the Kubernetes API has, and a note that says so.
func (r *Remote) locally(ctx context.Context, down, namespace string) (snapshot.Sources, func() string) {
	read := &reading{shown: map[string]atoll.NetworkStatus{}}
	read.held = snapshot.Held{
		Objects: model.NewChanges(), Default: config.Defaults().DefaultNetwork, Unread: map[string]bool{},
		Status: func(name, _ string) (atoll.NetworkStatus, bool) { s, known := read.shown[name]; return s, known },
	}
	if settings, err := config.Read(ctx, r.config); err == nil {
		read.held.Default, read.held.Pools = settings.Network, snapshot.RangesOf(settings)
	}
	// The client does not list these.
	read.held.Unread["gateways"] = true
	read.all(ctx, r, namespace)
	note := func() string {
		text := down + ": what follows is what Kubernetes tells, without OVN's databases"
		if len(read.unread) > 0 {
			text += ", and without what you may not list: " + strings.Join(read.unread, ", ")
		}
		return text + ". Next: atoll status"
	}
	source := "nobody: " + down
	return snapshot.Sources{Source: source, Client: r.client, Held: func() (snapshot.Held, error) { return read.held, nil }}, note
}

// all lists everything. If namespace is not empty, it lists namespaced objects of that namespace only.
func (read *reading) all(ctx context.Context, r *Remote, namespace string) {
	o, all := read.held.Objects, meta.ListOptions{}
	if objects, err := dynamic.NewForConfig(r.config); err == nil {
		listed(ctx, read, objects, "networks", func(n *atoll.Network) {
			o.Networks[n.Name], read.shown[n.Name] = intake.Network(n), n.Status
		})
		listed(ctx, read, objects, "nodereports", func(n *atoll.NodeReport) { o.Reports[n.Name] = intake.NodeReport(n) })
	}
	try := func(kind string, err error, use func()) {
		if err != nil {
			read.miss(kind)
			return
		}
		use()
	}
	namespaces, err := r.client.CoreV1().Namespaces().List(ctx, all)
	if err != nil && namespace != "" {
		var one *core.Namespace
		if one, err = r.client.CoreV1().Namespaces().Get(ctx, namespace, meta.GetOptions{}); err == nil {
			namespaces = &core.NamespaceList{Items: []core.Namespace{*one}}
		}
	}
	try("namespaces", err, func() {
		each(namespaces.Items, func(n *core.Namespace) { o.Namespaces[n.Name] = intake.Namespace(n) })
	})
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, all)
	try("pods", err, func() {
		each(pods.Items, func(p *core.Pod) {
			if pod := intake.Pod(p); pod != nil {
				o.Pods[pod.Key] = pod
			}
		})
	})
	nodes, err := r.client.CoreV1().Nodes().List(ctx, all)
	try("nodes", err, func() {
		each(nodes.Items, func(n *core.Node) {
			// A user who may not list reports does not know whether there is one.
			if !read.held.Unread["nodereports"] {
				o.Nodes[n.Name] = intake.Node(n)
			}
		})
	})
	services, err := r.client.CoreV1().Services(namespace).List(ctx, all)
	try("services", err, func() {
		each(services.Items, func(s *core.Service) {
			if service := intake.Service(s); service != nil {
				o.Services[service.Key] = service
			}
		})
	})
	endpoints, err := r.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, all)
	try("endpointslices", err, func() {
		each(endpoints.Items, func(s *discovery.EndpointSlice) {
			if slice := intake.Slice(s); slice != nil {
				o.Slices[slice.Key] = slice
			}
		})
	})
	kind, use, err := read.policies(ctx, r, namespace)
	try(kind, err, use)
}

func (read *reading) miss(kind string) {
	read.held.Unread[kind] = true
	read.unread = append(read.unread, kind)
	slices.Sort(read.unread)
}

func each[O any](items []O, use func(*O)) {
	for i := range items {
		use(&items[i])
	}
}

// listed lists the objects of one of Atoll's kinds.
func listed[O any](ctx context.Context, read *reading, objects dynamic.Interface, resource string, use func(*O)) {
	list, err := objects.Resource(atoll.SchemeGroupVersion.WithResource(resource)).List(ctx, meta.ListOptions{})
	if err != nil {
		read.miss(resource)
		return
	}
	for _, item := range list.Items {
		out := new(O)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, out); err != nil {
			read.miss(fmt.Sprintf("%s/%s", resource, item.GetName()))
			continue
		}
		use(out)
	}
}
