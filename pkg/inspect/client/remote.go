package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/inspect/status"
	"github.com/atoll-net/atoll/pkg/kube"
)

// Remote asks the API inspect.atoll.dev with the rights of the user. If that API does not answer, Remote reads what it can from the
// Kubernetes API, and each answer comes with a note that says so. Otherwise the note is empty.
type Remote struct {
	config *rest.Config
	client kubernetes.Interface
}

// NewRemote asks by a kubeconfig; empty: as kubectl does.
func NewRemote(kubeconfig string) (*Remote, error) {
	cfg, err := kube.UserConfig(kubeconfig, connect.UserAgent)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return &Remote{cfg, client}, nil
}

// Cluster says how the cluster is.
func (r *Remote) Cluster(ctx context.Context) (api.Cluster, string, error) {
	var out api.Cluster
	down, err := r.get(ctx, &out, api.ResourceClusters, api.ClusterName)
	if err != nil || down == "" {
		return out, "", err
	}
	local, note := r.locally(ctx, down, "")
	out, err = status.Cluster(ctx, local)
	if err == nil && down == silent {
		out.Status.Healthy = false
		out.Status.Problems = append(out.Status.Problems, api.Problem{
			Object: "APIService/" + api.Version + "." + api.GroupName,
			Message: "no atoll-inspect answers for this API: until one does, no namespace of the cluster can be deleted, because " +
				"Kubernetes asks each API what is in it",
			Next: "kubectl -n atoll-system get pods -l app.kubernetes.io/name=atoll-inspect",
		})
	}
	return out, note(), err
}

// List returns the objects of a resource that the user may get: of a namespace, or of all namespaces if it is empty. If the API does
// not answer, List derives them from the objects of the Kubernetes API.
func List[O any](ctx context.Context, r *Remote, of resources.Resource[O], namespace string) ([]O, string, error) {
	var out struct {
		Items []O `json:"items"`
	}
	path := []string{of.Name}
	if namespace != "" {
		path = []string{"namespaces", namespace, of.Name}
	}
	down, err := r.get(ctx, &out, path...)
	if err != nil || down == "" {
		return out.Items, "", err
	}
	local, note := r.locally(ctx, down, namespace)
	all, err := of.List(ctx, local, namespace)
	return all, note(), err
}

// Get returns one object of a resource with its details. Its error is a question.AbsentError when there is none. If the API does not
// answer, Get derives the object, as List does.
func Get[O any](ctx context.Context, r *Remote, of resources.Resource[O], namespace, name string) (O, string, error) {
	var out O
	path, object := []string{of.Name, name}, of.Noun+" "+name
	if namespace != "" {
		path, object = []string{"namespaces", namespace, of.Name, name}, of.Noun+" "+namespace+"/"+name
	}
	down, err := r.get(ctx, &out, path...)
	if err != nil || down == "" {
		return out, "", absent(err, object)
	}
	local, note := r.locally(ctx, down, namespace)
	out, there, err := of.Get(ctx, local, namespace, name)
	if err == nil && !there {
		err = &question.AbsentError{Object: object}
	}
	return out, note(), err
}

// Networks returns the Networks that the user may get.
func (r *Remote) Networks(ctx context.Context) ([]api.Network, string, error) {
	return List(ctx, r, resources.Networks(), "")
}

// Network returns a Network with its details.
func (r *Remote) Network(ctx context.Context, name string) (api.Network, string, error) {
	return Get(ctx, r, resources.Networks(), "", name)
}

// IPAMs returns the IPAM objects that the user may get.
func (r *Remote) IPAMs(ctx context.Context) ([]api.IPAM, string, error) {
	return List(ctx, r, resources.IPAMs(), "")
}

// IPAM returns an IPAM object with the holders of addresses.
func (r *Remote) IPAM(ctx context.Context, name string) (api.IPAM, string, error) {
	return Get(ctx, r, resources.IPAMs(), "", name)
}

// Topologies returns the Topologies that the user may get.
func (r *Remote) Topologies(ctx context.Context) ([]api.Topology, string, error) {
	return List(ctx, r, resources.Topologies(), "")
}

// Topology returns a Topology.
func (r *Remote) Topology(ctx context.Context, name string) (api.Topology, string, error) {
	return Get(ctx, r, resources.Topologies(), "", name)
}

// Pods returns the pods of a namespace, or of all namespaces if it is empty.
func (r *Remote) Pods(ctx context.Context, namespace string) ([]api.Pod, string, error) {
	return List(ctx, r, resources.Pods(), namespace)
}

// Pod returns a pod with its layers.
func (r *Remote) Pod(ctx context.Context, key model.PodKey) (api.Pod, string, error) {
	return Get(ctx, r, resources.Pods(), key.Namespace, key.Name)
}

func absent(err error, object string) error {
	if apierrors.IsNotFound(err) {
		return &question.AbsentError{Object: object}
	}
	return err
}

// silent says that the API server cannot reach the API inspect.atoll.dev.
const silent = "the API " + api.GroupName + " does not answer (kubectl describe apiservice " + api.Version + "." + api.GroupName + ")"

// get reads an object. If the API does not answer, down says why and err is nil.
func (r *Remote) get(ctx context.Context, into any, path ...string) (down string, err error) {
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	return r.ask(ctx, r.client.Discovery().RESTClient().Get(), into, path)
}

// ask sends a request. If the API does not answer, down says why and err is nil.
func (r *Remote) ask(ctx context.Context, request *rest.Request, into any, path []string) (down string, err error) {
	raw, err := request.AbsPath("/apis/" + api.GroupName + "/" + api.Version + "/" + strings.Join(path, "/")).Do(ctx).Raw()
	if err == nil {
		if err := json.Unmarshal(raw, into); err != nil {
			return "", fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
		}
		return "", nil
	}
	// What is not decoded, has its words in the body.
	var said meta.Status
	if json.Unmarshal(raw, &said) == nil && said.Kind == "Status" {
		err = &apierrors.StatusError{ErrStatus: said}
	}
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case !answered:
		return "", fmt.Errorf("ask the API server at %s: %w", r.config.Host, err)
	case apierrors.IsServiceUnavailable(err) && apierrors.IsUnexpectedServerError(err):
		return silent, nil // The text is the API server's own, not a Status.
	case apierrors.IsServiceUnavailable(err):
		return silent + ": " + status.ErrStatus.Message, nil
	case apierrors.IsTooManyRequests(err):
		return silent + ": too much is asked of it", nil
	case apierrors.IsNotFound(err) && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == ""):
		return fmt.Sprintf("the cluster has no API %s (dist/inspect installs it)", api.GroupName), nil
	}
	return "", err
}

// NodeNames returns the nodes that the user may list, else those in the cluster's status. If neither can be read, it returns none.
func (r *Remote) NodeNames(ctx context.Context) (out []string) {
	if list, err := r.client.CoreV1().Nodes().List(ctx, meta.ListOptions{}); err == nil {
		for _, n := range list.Items {
			out = append(out, n.Name)
		}
		return out
	}
	cluster, _, err := r.Cluster(ctx)
	if err != nil {
		return nil
	}
	for _, n := range cluster.Status.Nodes {
		out = append(out, n.Name)
	}
	return out
}

// PodPlace identifies a pod and its node.
type PodPlace struct {
	Key  model.PodKey
	Node string
	// UID is the pod's; empty where only inspection tells of it.
	UID string
}

// PlaceOf returns the place of a pod from the Kubernetes API. For a user who may not get the pod, it asks inspect.atoll.dev.
func (r *Remote) PlaceOf(ctx context.Context, key model.PodKey) (PodPlace, error) {
	place := PodPlace{Key: key}
	pod, err := r.client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, meta.GetOptions{})
	switch {
	case err == nil:
		place.Node, place.UID = pod.Spec.NodeName, string(pod.UID)
	case apierrors.IsForbidden(err):
		inspected, _, err := r.Pod(ctx, key)
		if err != nil {
			return place, err
		}
		place.Node, place.UID = inspected.Status.Node, string(inspected.UID)
	default:
		return place, fmt.Errorf("ask for the node of pod %s: %w", key, err)
	}
	if place.Node == "" {
		return place, fmt.Errorf("pod %s has no node yet. Next: atoll pod %s", key, key)
	}
	return place, nil
}

// maxNetworksAsked bounds how many Networks are asked for their namespaces.
const maxNetworksAsked = 16

// Namespaces returns the namespaces that the user may list. If the user may list none, it returns those of the user's Networks, and
// leaves out Networks that it cannot read.
func (r *Remote) Namespaces(ctx context.Context) (out []string) {
	if list, err := r.client.CoreV1().Namespaces().List(ctx, meta.ListOptions{}); err == nil {
		for _, n := range list.Items {
			out = append(out, n.Name)
		}
		return out
	}
	networks, _, err := r.Networks(ctx)
	if err != nil {
		return nil
	}
	for _, n := range networks[:min(len(networks), maxNetworksAsked)] {
		if one, _, err := r.Network(ctx, n.Name); err == nil && one.Status.Detail != nil {
			out = append(out, one.Status.Detail.Namespaces...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
