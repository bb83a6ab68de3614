package install

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/atoll-net/atoll/pkg/kube"
)

// manager is our name as a field manager of server-side apply.
const manager = "atoll-install"

// Cluster is the API server as the steps see it.
type Cluster struct {
	objects   dynamic.Interface
	discovery discovery.DiscoveryInterface
	mapper    meta.ResettableRESTMapper
}

// Connect is the way to the API server that kubectl takes; kubeconfig names a file, or is empty.
func Connect(kubeconfig string) (*Cluster, error) {
	cfg, err := kube.UserConfig(kubeconfig, manager)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return NewCluster(objects, found), nil
}

// NewCluster is a cluster behind clients.
func NewCluster(objects dynamic.Interface, found discovery.DiscoveryInterface) *Cluster {
	return &Cluster{objects: objects, discovery: found, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
}

// of is where objects of a kind are. An error that meta.IsNoMatchError knows means that the server has no such kind.
func (c *Cluster) of(gk schema.GroupKind, namespace string, versions ...string) (dynamic.ResourceInterface, error) {
	m, err := c.mapper.RESTMapping(gk, versions...)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		m, err = c.mapper.RESTMapping(gk, versions...)
	}
	if err != nil {
		return nil, fmt.Errorf("find kind %s: %w", gk, err)
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.objects.Resource(m.Resource).Namespace(namespace), nil
	}
	return c.objects.Resource(m.Resource), nil
}

func (c *Cluster) where(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	return c.of(gvk.GroupKind(), o.GetNamespace(), gvk.Version)
}

// get reads an object; nil, if there is none, or no such kind.
func (c *Cluster) get(ctx context.Context, gk schema.GroupKind, namespace, name string) (*unstructured.Unstructured, error) {
	in, err := c.of(gk, namespace)
	if err == nil {
		var found *unstructured.Unstructured
		if found, err = in.Get(ctx, name, metav1.GetOptions{}); err == nil {
			return found, nil
		}
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return nil, fmt.Errorf("read %s %s: %w", gk.Kind, name, err)
}

// list reads the objects of a kind, in all namespaces if none is named. There are none of a kind that the server does not have.
func (c *Cluster) list(ctx context.Context, gk schema.GroupKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	in, err := c.of(gk, namespace)
	if err == nil {
		var found *unstructured.UnstructuredList
		if found, err = in.List(ctx, metav1.ListOptions{LabelSelector: selector}); err == nil {
			return found.Items, nil
		}
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return nil, fmt.Errorf("list %s: %w", gk, err)
}

// listAs is list, read into a type.
func listAs[T any](ctx context.Context, c *Cluster, gk schema.GroupKind, namespace, selector string) ([]T, error) {
	found, err := c.list(ctx, gk, namespace, selector)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(found))
	for i := range found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[i].Object, &out[i]); err != nil {
			return nil, fmt.Errorf("read %s: %w", nameOf(&found[i]), err)
		}
	}
	return out, nil
}

// remove deletes an object in the background, if it is still the one that was read.
func (c *Cluster) remove(ctx context.Context, o *unstructured.Unstructured) error {
	in, err := c.where(o)
	if err == nil {
		uid, background := o.GetUID(), metav1.DeletePropagationBackground
		options := metav1.DeleteOptions{PropagationPolicy: &background}
		if uid != "" {
			options.Preconditions = &metav1.Preconditions{UID: &uid}
		}
		err = in.Delete(ctx, o.GetName(), options)
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", nameOf(o), err)
	}
	return nil
}

// What became of an object that was applied.
type outcome string

const (
	created   outcome = "created"
	changed   outcome = "changed"
	unchanged outcome = "unchanged"
	pruned    outcome = "pruned"
	kept      outcome = "kept"
)

// Outcome is what became of an object, or with a dry run what would become of it.
type Outcome struct {
	Object string
	What   outcome
	// Why says what a person may not expect.
	Why string
}

// writing is whether the server keeps what it is sent.
type writing bool

const (
	forReal writing = true
	dryRun  writing = false
)

// apply sends one object. A dry run of an object whose kind or namespace would come before it is one that is created.
func (c *Cluster) apply(ctx context.Context, o *unstructured.Unstructured, how writing) (Outcome, error) {
	result := Outcome{Object: nameOf(o), What: created}
	in, err := c.where(o)
	if err != nil {
		if how == dryRun && meta.IsNoMatchError(err) {
			return result, nil
		}
		return result, fmt.Errorf("apply %s: %w", nameOf(o), err)
	}
	before, err := in.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return result, fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	if err != nil {
		before = nil
	}
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	if how == dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	after, err := in.Apply(ctx, o.GetName(), o, options)
	if err != nil {
		if how == dryRun && before == nil && apierrors.IsNotFound(err) {
			return result, nil
		}
		return result, fmt.Errorf("apply %s: %w", nameOf(o), err)
	}
	if before != nil {
		result.What = unchanged
		if !same(before, after) {
			result.What = changed
		}
	}
	return result, nil
}

// same reports whether two states of an object differ in more than bookkeeping.
func same(a, b *unstructured.Unstructured) bool {
	plain := func(o *unstructured.Unstructured) map[string]any {
		o = o.DeepCopy()
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		delete(o.Object, "status")
		return o.Object
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// Summary counts outcomes: "3 created, 1 changed".
func Summary(all []Outcome) string {
	counts := map[outcome]int{}
	for _, one := range all {
		counts[one.What]++
	}
	var words []string
	for _, what := range []outcome{created, changed, unchanged, pruned, kept} {
		if n := counts[what]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, what))
		}
	}
	return strings.Join(words, ", ")
}
