package follow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Clients are the ways of a node's programs to the API server.
type Clients struct {
	// Metadata reads objects of which no more is needed, Kube Kubernetes' own, and Networks ours.
	Metadata metadata.Interface
	Kube     kubernetes.Interface
	Networks dynamic.Interface
}

// Connect makes Clients by a kubeconfig file, or with an empty name for the pod that we run in. agent is our name.
func Connect(kubeconfig, agent string) (api Clients, err error) {
	server, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return api, fmt.Errorf("find the API server: %w", err)
	}
	server.UserAgent = agent
	if api.Metadata, err = metadata.NewForConfig(server); err == nil {
		api.Networks, err = dynamic.NewForConfig(server)
	}
	if err == nil {
		api.Kube, err = kubernetes.NewForConfig(server)
	}
	if err != nil {
		return api, fmt.Errorf("make API client: %w", err)
	}
	return api, nil
}

// Resource is a kind of objects as client-go's clients offer it.
type Resource[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Options say what is listed of a Resource, and who hears of failures.
type Options struct {
	// Labels and Fields are selectors; empty selects all.
	Labels, Fields string
	// Failed is told each time that a watch cannot be begun, before it is tried again.
	Failed func(error)
}

// List lists and watches a Resource of a client.
func List[L runtime.Object](client any, resource Resource[L], options Options) cache.ListerWatcher {
	choose := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = options.Labels, options.Fields
		return o
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, choose(o))
			if err != nil && ctx.Err() == nil {
				options.Failed(err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := resource.Watch(ctx, choose(o))
			// A server that is away for a moment is asked again, and one that cannot list by a watch is asked for a list.
			passing := utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
			if err != nil && !passing && o.SendInitialEvents == nil && ctx.Err() == nil {
				options.Failed(err)
			}
			return w, err
		},
	}, client)
}

// Decoded reads objects of the dynamic client by their own type. One that cannot be read is told of, and has no value.
func Decoded[T, V any](read func(*T) *V, failed func(name string, err error)) func(*unstructured.Unstructured) *V {
	return func(u *unstructured.Unstructured) *V {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
			failed(u.GetName(), err)
			return nil
		}
		return read(object)
	}
}

// ByUID is the key of objects of which one that is made anew under its name is another.
func ByUID(o metav1.Object) string { return string(o.GetUID()) }

// ByName is the key of objects without a namespace.
func ByName(o metav1.Object) string { return o.GetName() }
