package inprocess

import (
	"slices"
	"strings"
	"sync"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	policy "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

// kinds are those that clients know by their types.
var kinds = sync.OnceValue(func() *runtime.Scheme {
	out := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{scheme.AddToScheme, atoll.AddToScheme, policy.Install} {
		if err := install(out); err != nil {
			panic(err)
		}
	}
	return out
})

// offered are what objects are there of one version, by what they are called in paths.
func offered(version schema.GroupVersion) map[string]string {
	out := map[string]string{}
	for kind := range kinds().KnownTypes(version) {
		if single, found := strings.CutSuffix(kind, "List"); found && single != "" {
			out[resourceOf(single)] = single
		} else if strings.HasSuffix(kind, "Review") {
			// Nobody keeps them.
			out[resourceOf(kind)] = kind
		}
	}
	return out
}

// listKind is the kind of a resource's list: clients that have types want the right one.
func listKind(resource schema.GroupVersionResource) string {
	return offered(resource.GroupVersion())[resource.Resource] + "List"
}

// resourceOf is what the objects of a kind are called in paths.
func resourceOf(kind string) string {
	kind = strings.ToLower(kind)
	if stem, found := strings.CutSuffix(kind, "y"); found {
		return stem + "ies"
	}
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}

// global are the kinds that are in no namespace.
var global = []string{
	"AtollConfig", "CertificateSigningRequest", "ClusterNetworkPolicy", "ClusterRole", "ClusterRoleBinding", "Namespace",
	"Network", "NetworkView", "Node", "NodeReport", "PriorityClass",
	"ServiceCIDR", "SelfSubjectAccessReview", "SubjectAccessReview", "Tenant", "TokenReview",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// discover says what there is; nil for a path that asks for something else.
func discover(path string) any {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/api":
		return meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "/apis":
		list := meta.APIGroupList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
		for _, version := range kinds().PrioritizedVersionsAllGroups() {
			if version.Group == "" || version.Version == runtime.APIVersionInternal || len(offered(version)) == 0 {
				continue
			}
			one := meta.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
			if i := slices.IndexFunc(list.Groups, func(g meta.APIGroup) bool { return g.Name == version.Group }); i >= 0 {
				list.Groups[i].Versions = append(list.Groups[i].Versions, one)
				continue
			}
			list.Groups = append(list.Groups, meta.APIGroup{
				Name: version.Group, Versions: []meta.GroupVersionForDiscovery{one}, PreferredVersion: one,
			})
		}
		return list
	case len(parts) == 2 && parts[0] == "api":
		return resources(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return resources(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return nil
}

func resources(version schema.GroupVersion) any {
	list := meta.APIResourceList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version.String()}
	for name, kind := range offered(version) {
		list.APIResources = append(list.APIResources, meta.APIResource{
			Name: name, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: !slices.Contains(global, kind),
			Verbs: meta.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	slices.SortFunc(list.APIResources, func(a, b meta.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return list
}
