package install

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func object(apiVersion, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

// TestSurplus: only members go, and of those no definition that has objects, nothing of Atoll's own kinds, and no namespace.
func TestSurplus(t *testing.T) {
	t.Parallel()
	member := map[string]string{setMemberLabel: setID()}
	crd := func(name string) *unstructured.Unstructured {
		return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name, member)
	}
	there := []unstructured.Unstructured{
		*object("v1", "ConfigMap", system, "wanted", member),
		*object("v1", "ConfigMap", system, "old", member),
		*object("v1", "ConfigMap", "kube-system", "wanted", member),
		*object("v1", "ConfigMap", system, "somebody's", nil),
		*object("v1", "ConfigMap", system, "another set's", map[string]string{setMemberLabel: "applyset-x-v1"}),
		*object("v1", "Namespace", "", "old", member),
		*object("atoll.dev/v1alpha1", "Network", "", "default", member),
		*crd("full.atoll.dev"), *crd("empty.atoll.dev"),
		// Another version of an API is the same object.
		*object("policy/v1beta1", "PodDisruptionBudget", system, "wanted", member),
	}
	wanted := []*unstructured.Unstructured{
		object("v1", "ConfigMap", system, "wanted", nil), object("policy/v1", "PodDisruptionBudget", system, "wanted", nil),
	}
	hasObjects := func(o *unstructured.Unstructured) (bool, error) { return strings.HasPrefix(o.GetName(), "full"), nil }
	gone, stay, remove, err := surplus(there, wanted, hasObjects)
	if err != nil {
		t.Fatal(err)
	}
	names := func(all []Outcome) (out []string) {
		for _, one := range all {
			out = append(out, one.Object)
		}
		return out
	}
	if got, want := names(gone), []string{
		"ConfigMap atoll-system/old", "ConfigMap kube-system/wanted", "CustomResourceDefinition empty.atoll.dev",
	}; !slices.Equal(got, want) || len(remove) != len(want) {
		t.Errorf("gone: %q, want %q", got, want)
	}
	if got, want := names(stay), []string{"Namespace old", "Network default", "CustomResourceDefinition full.atoll.dev"}; !slices.Equal(got,
		want) {
		t.Errorf("kept: %q, want %q", got, want)
	}
	if _, _, _, err := surplus(there, wanted,
		func(*unstructured.Unstructured) (bool, error) { return false, errors.New("unknown") }); err == nil {
		t.Error("a definition of which it is not known whether it has objects may go")
	}
}

// TestParent: the set's parent is as Kubernetes' KEP-3659 says. The id was computed by sha256sum and base64.
func TestParent(t *testing.T) {
	t.Parallel()
	o := record{
		Version: "v1", Source: "overlay ha",
		kinds:      []schema.GroupKind{{Group: "apps", Kind: "DaemonSet"}, {Kind: "ConfigMap"}, {Group: "apps", Kind: "DaemonSet"}},
		namespaces: []string{system, "kube-system", "kube-system"},
	}.parent()
	if got := o.GetAnnotations()[setKindsMark]; got != "ConfigMap,DaemonSet.apps" {
		t.Errorf("kinds: %q", got)
	}
	if got := o.GetAnnotations()[setNamespacesMark]; got != "kube-system" {
		t.Errorf("namespaces: %q", got)
	}
	if got := o.GetLabels()[setIDLabel]; got != "applyset--xkofkqBWOK_jWY1FgNLtqnEOUhxxmmehfc3MBt3OVk-v1" {
		t.Errorf("id %q", got)
	}
}
