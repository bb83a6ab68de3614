package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/kube"
)

// Options say what is collected.
type Options struct {
	// Kubeconfig says how to reach the API server; empty: as kubectl does.
	Kubeconfig string
	// Namespace is where Atoll's pods are.
	Namespace string
	// Version is that of the program, Now the time.
	Version string
	Now     time.Time
	// Databases: OVN's are dumped, where the user may read them.
	Databases bool
	// Note is told what is being read.
	Note func(what string)
}

// The bounds of a bundle.
const (
	// maxArchive bounds all files together before they are compressed, in bytes.
	maxArchive = 256 << 20
	// maxLog bounds the log of a container, in bytes, and logLines in lines.
	maxLog   = 1 << 20
	logLines = 5000
	// maxTable bounds the text of a table of a database, in bytes.
	maxTable = 32 << 20
	// maxObjects bounds the objects of a kind, pageSize those of a page.
	maxObjects = 20000
	pageSize   = 500
	// maxNamespaces bounds in how many namespaces is listed what may not be listed in all.
	maxNamespaces = 64
	// askTime bounds one question.
	askTime = time.Minute
)

// collector reads a cluster into an archive.
type collector struct {
	archive
	Options
	remote  *client.Remote
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// namespaces are those where is listed what may not be listed in all.
	namespaces []string
}

// Write collects, writes the archive, and returns its manifest. It fails if nothing could be read or the archive could not be
// written.
func Write(ctx context.Context, o Options, to io.Writer) (Manifest, error) {
	return write(ctx, o, to, remover{})
}

func write(ctx context.Context, o Options, to io.Writer, clean cleaner) (Manifest, error) {
	cfg, err := kube.UserConfig(o.Kubeconfig, "atoll")
	if err != nil {
		return Manifest{}, err
	}
	c := &collector{
		archive: archive{
			clean: clean, manifest: Manifest{Created: o.Now.UTC().Truncate(time.Second), Version: o.Version, Missing: []Missing{}},
			texts: map[string][]byte{},
		}, Options: o,
	}
	if c.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return Manifest{}, fmt.Errorf("make API client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return Manifest{}, fmt.Errorf("make API client: %w", err)
	}
	if c.remote, err = client.NewRemote(o.Kubeconfig); err != nil {
		return Manifest{}, err
	}
	// Who cannot be reached at all need not be asked for everything.
	server, err := c.client.Discovery().ServerVersion()
	if err != nil && !apierrors.IsForbidden(err) {
		return Manifest{}, fmt.Errorf("ask the API server at %s: %w", cfg.Host, err)
	}
	version := "atoll " + o.Version + "\n"
	if server != nil {
		version += "Kubernetes " + server.String() + "\n"
	}
	c.add(File{Name: "version.txt", What: "versions of the program and of Kubernetes"}, []byte(version))
	c.namespaces = c.remote.Namespaces(ctx)
	for _, step := range []struct {
		what string
		do   func(context.Context)
	}{
		{"answers of inspect.atoll.dev", c.answers},
		{"objects", c.objectsOfKinds},
		{"Events", c.events},
		{"pods and logs", c.programs},
		{"OVN's databases", c.databases},
	} {
		o.Note(step.what)
		step.do(ctx)
	}
	if err := context.Cause(ctx); err != nil {
		return Manifest{}, err
	}
	return c.manifest, c.write(to, "atoll-bundle-"+c.manifest.Created.Format("20060102-150405"))
}

// answers are those of inspect.atoll.dev, as the commands status, networks, ipam, ipam check, topology and pods print them.
func (c *collector) answers(ctx context.Context) {
	cluster, note, err := c.remote.Cluster(ctx)
	c.answer("status", "is Atoll well (atoll status)", []any{cluster}, note, err)
	networks, note, err := c.remote.Networks(ctx)
	c.answer("networks", "Networks (atoll networks)", anys(networks), note, err)
	var details []any
	for i, n := range networks {
		if i == maxNamespaces {
			c.miss("answers/network-details.yaml", fmt.Errorf("only the first %d of %d Networks are there", maxNamespaces, len(networks)))
			break
		}
		one, _, err := c.remote.Network(ctx, n.Name)
		if err != nil {
			c.miss("details of Network "+n.Name, err)
			continue
		}
		details = append(details, one)
	}
	c.answer("network-details", "Networks with their details (atoll network)", details, note, err)
	ipams, note, err := c.remote.IPAMs(ctx)
	c.answer("ipam", "addresses in use (atoll ipam)", anys(ipams), note, err)
	checks, note, err := client.List(ctx, c.remote, resources.IPAMChecks(), "")
	c.answer("ipam-check", "what is wrong with addresses (atoll ipam check)", anys(checks), note, err)
	topologies, note, err := c.remote.Topologies(ctx)
	c.answer("topology", "how Networks hang together (atoll topology)", anys(topologies), note, err)
	c.answerPods(ctx)
}

// answerPods are the pods of all namespaces, or else of those that the user may list.
func (c *collector) answerPods(ctx context.Context) {
	pods, note, err := c.remote.Pods(ctx, "")
	if apierrors.IsForbidden(err) && len(c.namespaces) > 0 {
		c.partly("pods in Networks", err)
		pods, err = nil, nil
		for _, namespace := range c.someNamespaces() {
			some, _, problem := c.remote.Pods(ctx, namespace)
			if problem != nil {
				c.miss("pods in Networks, of namespace "+namespace, problem)
			}
			pods = append(pods, some...)
		}
	}
	c.answer("pods", "pods in Networks (atoll pods)", anys(pods), note, err)
}

func (c *collector) answer(name, what string, values []any, note string, err error) {
	if err != nil {
		c.miss(what, err)
		return
	}
	if note != "" {
		c.miss("the whole of: "+what, errors.New(note))
	}
	c.objects(File{Name: "answers/" + name + ".yaml", What: what}, values)
}

// partly says that something is there only of the namespaces that the user may list.
func (c *collector) partly(what string, err error) {
	c.miss(what+" of all namespaces", fmt.Errorf("those of %d namespaces that you may ask for are there: %w", len(c.someNamespaces()), err))
}

func (c *collector) someNamespaces() []string {
	return c.namespaces[:min(len(c.namespaces), maxNamespaces)]
}

func anys[T any](values []T) []any {
	out := make([]any, 0, len(values))
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

// kind is what of the API server's objects is read.
type kind struct {
	schema.GroupVersionResource
	what string
	// spaced: its objects are in namespaces.
	spaced bool
}

// kinds are Atoll's own, and what Networks are made of. Secrets and ConfigMaps are none of them.
func kinds() []kind {
	const atoll = "atoll.dev"
	return append([]kind{
		of(atoll, "v1alpha1", "networks", "Networks"), of(atoll, "v1alpha1", "tenants", "Tenants"), of(atoll, "v1alpha1", "atollconfigs",
			"the cluster's settings"),
		of(atoll, "v1alpha1", "networkviews", "NetworkViews").inNamespaces(), of(atoll, "v1alpha1", "nodereports", "reports of nodes"),
		of("", "v1", "nodes", "nodes"), of("", "v1", "namespaces", "namespaces"), of("", "v1", "services", "Services").inNamespaces(),
		of("discovery.k8s.io", "v1", "endpointslices", "EndpointSlices").inNamespaces(), of("apiregistration.k8s.io", "v1", "apiservices",
			"APIServices"),
	}, policyKinds()...)
}

func of(group, version, resource, what string) kind {
	return kind{schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, what, false}
}

func (k kind) inNamespaces() kind {
	k.spaced = true
	return k
}

func (c *collector) objectsOfKinds(ctx context.Context) {
	for _, k := range kinds() {
		f := File{Name: "objects/" + k.Resource + ".yaml", What: k.what}
		all, err := c.list(ctx, k.GroupVersionResource, "", nil)
		if apierrors.IsForbidden(err) && len(c.namespaces) > 0 && k.spaced {
			c.partly(k.what, err)
			all, err = c.listSome(ctx, k), nil
		}
		if err != nil {
			c.miss(k.what, err)
			continue
		}
		c.objects(f, all)
	}
}

// listSome lists in each namespace what may not be listed in all.
func (c *collector) listSome(ctx context.Context, k kind) (out []any) {
	for _, namespace := range c.someNamespaces() {
		some, err := c.list(ctx, k.GroupVersionResource, namespace, nil)
		if err != nil {
			c.miss(k.what+" of namespace "+namespace, err)
			continue
		}
		out = append(out, some...)
	}
	return out
}

// list reads objects in pages, those that are wanted; one more than are taken at most.
func (c *collector) list(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, want func(map[string]any) bool,
) (out []any, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	o := meta.ListOptions{Limit: pageSize}
	for {
		page, err := c.dynamic.Resource(resource).Namespace(namespace).List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if want == nil || want(item.Object) {
				out = append(out, item.Object)
			}
		}
		if o.Continue = page.GetContinue(); o.Continue == "" || len(out) > maxObjects {
			return out, nil
		}
	}
}
