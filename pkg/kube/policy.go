package kube

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// askAgain is how long a kind that the API server does not know is taken for one without objects, before it is asked again.
const askAgain = 10 * time.Second

func newPolicyClient(cfg *rest.Config, transport *http.Client) (*rest.RESTClient, error) {
	version := schema.GroupVersion(policyv1alpha2.GroupVersion)
	return newClient(cfg, transport, "ClusterNetworkPolicy", version, func(scheme *runtime.Scheme) error {
		metav1.AddToGroupVersion(scheme, version)
		return policyv1alpha2.Install(scheme)
	})
}

// clusterPolicies lists and watches ClusterNetworkPolicies. Their CustomResourceDefinition is not ours: where there is none,
// there are no such policies, until somebody brings it.
type clusterPolicies struct{ *cache.ListWatch }

func clusterPoliciesOf(c rest.Interface) clusterPolicies {
	return clusterPolicies{cache.NewListWatchFromClient(c, "clusternetworkpolicies", metav1.NamespaceAll, fields.Everything())}
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (c clusterPolicies) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := c.ListWatch.ListWithContext(ctx, o)
	if apierrors.IsNotFound(err) {
		return &policyv1alpha2.ClusterNetworkPolicyList{}, nil
	}
	return list, err
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (c clusterPolicies) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := c.ListWatch.WatchWithContext(ctx, o)
	if !apierrors.IsNotFound(err) || o.SendInitialEvents != nil {
		return w, err
	}
	// Nothing happens for a while; then the reflector watches again, and is told all that there is.
	nothing := watch.NewFakeWithOptions(watch.FakeOptions{})
	go func() {
		again := time.NewTimer(askAgain)
		defer again.Stop()
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		nothing.Stop()
	}()
	return nothing, nil
}

// policyKey names a policy of a kind.
func policyKey(kind model.PolicyKind) func(namespace, name string) model.PolicyKey {
	return func(namespace, name string) model.PolicyKey {
		return model.PolicyKey{Kind: kind, Namespace: namespace, Name: name}
	}
}
