package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// resourceOf is where the API has policies of a kind.
func resourceOf(kind model.PolicyKind) schema.GroupVersionResource {
	if kind == model.ClusterNetworkPolicy {
		return schema.GroupVersionResource{Group: "policy.networking.k8s.io", Version: "v1alpha2", Resource: "clusternetworkpolicies"}
	}
	return schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
}

// maxLook is how many bytes are looked at to tell YAML from JSON.
const maxLook = 4096

// ReadPolicies reads the policies of a file: one or several documents, or lists. Those without a namespace are in the one that is given.
func ReadPolicies(file io.Reader, namespace string) (out []unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(file, maxLook)
	for {
		var one unstructured.Unstructured
		err := decoder.Decode(&one.Object)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("read policies: %w", err)
		case len(one.Object) == 0:
			continue
		}
		items := []unstructured.Unstructured{one}
		if one.IsList() {
			list, err := one.ToList()
			if err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
			items = list.Items
		}
		for _, item := range items {
			kind := model.PolicyKind(item.GetKind())
			if gv := resourceOf(kind).GroupVersion().String(); kind != model.NetworkPolicy && kind != model.ClusterNetworkPolicy || item.GetAPIVersion() != gv {
				return nil, fmt.Errorf("%s %s of %s is no policy that can be tried: NetworkPolicy of %s and ClusterNetworkPolicy of %s are", item.GetKind(), item.GetName(), item.GetAPIVersion(),
					resourceOf(model.NetworkPolicy).GroupVersion(), resourceOf(model.ClusterNetworkPolicy).GroupVersion())
			}
			if kind == model.NetworkPolicy && item.GetNamespace() == "" {
				item.SetNamespace(namespace)
			}
			out = append(out, item)
		}
	}
}

// everyDryRun has an API server do everything but keep it.
func everyDryRun() []string { return []string{meta.DryRunAll} }

// DryRun asks the API server, with the user's own rights, whether policies would be accepted and could be deleted. It returns the question what would
// change then: policies as the API server would keep them.
func (r *Remote) DryRun(ctx context.Context, policies []unstructured.Unstructured, gone []model.PolicyKey) (out api.PolicyTrialSpec, err error) {
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return out, fmt.Errorf("make API client: %w", err)
	}
	for _, p := range policies {
		at := client.Resource(resourceOf(model.PolicyKind(p.GetKind()))).Namespace(p.GetNamespace())
		kept, err := at.Create(ctx, &p, meta.CreateOptions{DryRun: everyDryRun(), FieldValidation: meta.FieldValidationStrict})
		if apierrors.IsAlreadyExists(err) {
			var has *unstructured.Unstructured
			if has, err = at.Get(ctx, p.GetName(), meta.GetOptions{}); err != nil {
				return out, fmt.Errorf("read %s %s: %w", p.GetKind(), p.GetName(), err)
			}
			p.SetResourceVersion(has.GetResourceVersion())
			kept, err = at.Update(ctx, &p, meta.UpdateOptions{DryRun: everyDryRun(), FieldValidation: meta.FieldValidationStrict})
		}
		if err != nil {
			return out, fmt.Errorf("the API server does not accept %s %s: %w", p.GetKind(), p.GetName(), err)
		}
		kept.SetManagedFields(nil)
		text, err := kept.MarshalJSON()
		if err != nil {
			return out, fmt.Errorf("write %s %s: %w", p.GetKind(), p.GetName(), err)
		}
		out.Policies = append(out.Policies, runtime.RawExtension{Raw: text})
	}
	for _, key := range gone {
		err := client.Resource(resourceOf(key.Kind)).Namespace(key.Namespace).Delete(ctx, key.Name, meta.DeleteOptions{DryRun: everyDryRun()})
		if err != nil {
			return out, fmt.Errorf("the API server does not delete %s: %w", key, err)
		}
		out.Delete = append(out.Delete, key.String())
	}
	return out, nil
}
