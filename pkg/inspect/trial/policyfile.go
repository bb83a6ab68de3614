package trial

import (
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ResourceOf is where the API has policies of a kind.
func ResourceOf(kind model.PolicyKind) schema.GroupVersionResource {
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
			if gv := ResourceOf(kind).GroupVersion().String(); kind != model.NetworkPolicy && kind != model.ClusterNetworkPolicy ||
				item.GetAPIVersion() != gv {
				return nil, fmt.Errorf("%s %s of %s is no policy that can be tried: NetworkPolicy of %s and ClusterNetworkPolicy of %s are",
					item.GetKind(), item.GetName(), item.GetAPIVersion(),
					ResourceOf(model.NetworkPolicy).GroupVersion(), ResourceOf(model.ClusterNetworkPolicy).GroupVersion())
			}
			if kind == model.NetworkPolicy && item.GetNamespace() == "" {
				item.SetNamespace(namespace)
			}
			out = append(out, item)
		}
	}
}
