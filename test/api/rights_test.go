//go:build integration

package api

import (
	"testing"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/apiserver"
)

const (
	controller = "system:serviceaccount:atoll-system:atoll-controller"
	agent      = "system:serviceaccount:atoll-system:atoll-agent"
	names      = "system:serviceaccount:atoll-system:atoll-dns"
	inspection = "system:serviceaccount:atoll-system:atoll-inspect"
)

// testRights asks RBAC what the programs may do: all that they need, and none of what would make them worth taking over.
func testRights(t *testing.T, s *apiserver.Server) {
	client := clientFor(t, s.RESTConfig())
	type request struct{ group, resource, subresource, namespace, name string }
	pods := request{resource: "pods"}
	networks := request{group: "atoll.dev", resource: "networks"}
	tenants, clusterRoles := request{group: "atoll.dev", resource: "tenants"}, request{
		group: "rbac.authorization.k8s.io", resource: "clusterroles",
	}
	settings := request{group: "atoll.dev", resource: "atollconfigs"}
	slices := request{group: "discovery.k8s.io", resource: "endpointslices"}
	gateways := request{group: "gateway.networking.k8s.io", resource: "gateways"}
	gatewayStatus := request{group: "gateway.networking.k8s.io", resource: "gateways", subresource: "status"}
	status := request{group: "atoll.dev", resource: "networks", subresource: "status"}
	writes := []string{"create", "update", "patch", "delete", "deletecollection"}
	for _, rule := range []struct {
		user    string
		request request
		may     []string
		mayNot  []string
	}{
		{controller, networks, []string{"get", "list", "watch", "create", "update", "patch", "delete"}, []string{"deletecollection"}},
		{
			controller, tenants, []string{"get", "list", "watch", "update", "patch", "administer"}, []string{"create", "delete", "deletecollection"},
		},
		{controller, request{group: "atoll.dev", resource: "tenants", subresource: "status"}, []string{"update", "patch"}, nil},
		{
			controller, clusterRoles,
			[]string{"get", "list", "watch", "create", "update", "delete"},
			[]string{"escalate", "bind", "deletecollection"},
		},
		{
			controller,
			request{group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
			[]string{"create", "update", "delete"},
			[]string{"deletecollection"},
		},
		{
			controller,
			request{group: "rbac.authorization.k8s.io", resource: "roles", namespace: "team"},
			nil,
			[]string{"create", "update", "delete"},
		},
		{agent, tenants, nil, []string{"get", "list", "watch", "create", "update", "patch", "delete", "administer"}},
		{names, tenants, nil, []string{"get", "list", "watch", "create", "update", "patch", "delete", "administer"}},
		{controller, status, []string{"update", "patch"}, nil},
		{controller, request{resource: "events"}, []string{"create", "patch"}, []string{"list", "delete"}},
		{
			controller,
			request{group: "apiregistration.k8s.io", resource: "apiservices", name: "v1alpha1.inspect.atoll.dev"},
			[]string{"get", "patch"},
			[]string{"create", "delete"},
		},
		{controller, request{group: "apiregistration.k8s.io", resource: "apiservices", name: "v1."}, nil, []string{"get", "patch", "update"}},
		{
			controller,
			request{resource: "configmaps", namespace: "kube-system", name: "extension-apiserver-authentication"},
			nil,
			[]string{"get", "update", "patch"},
		},
		{
			controller,
			request{group: "apps", resource: "deployments", namespace: "atoll-system"},
			nil,
			[]string{"list", "create", "update", "patch", "delete"},
		},
		{controller, request{group: "atoll.dev", resource: "networks", subresource: "finalizers"}, []string{"update"}, nil},
		{
			controller,
			request{group: "atoll.dev", resource: "networkviews", namespace: "team"},
			[]string{"get", "list", "watch", "create", "update", "delete"},
			[]string{"deletecollection"},
		},
		{
			agent,
			request{group: "atoll.dev", resource: "networkviews", namespace: "team"},
			nil,
			[]string{"get", "list", "watch", "create", "update", "delete"},
		},
		{
			agent,
			request{group: "atoll.dev", resource: "nodereports"},
			[]string{"get", "list", "watch", "create", "update"},
			[]string{"patch", "delete", "deletecollection"},
		},
		{controller, settings, []string{"get", "list", "watch", "create", "patch"}, []string{"update", "delete"}},
		{controller, request{group: "atoll.dev", resource: "atollconfigs", subresource: "status"}, []string{"update"}, nil},
		{agent, settings, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{names, settings, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{
			controller,
			request{group: "atoll.dev", resource: "nodereports"},
			[]string{"get", "list", "watch"},
			[]string{"create", "update", "patch", "delete"},
		},
		{names, request{group: "atoll.dev", resource: "nodereports"}, nil, []string{"get", "list", "watch", "create", "update"}},
		{agent, request{group: "authentication.k8s.io", resource: "tokenreviews"}, []string{"create"}, nil},
		{agent, request{group: "authorization.k8s.io", resource: "subjectaccessreviews"}, []string{"create"}, nil},
		{controller, request{group: "authentication.k8s.io", resource: "tokenreviews"}, []string{"create"}, nil},
		{controller, request{group: "authorization.k8s.io", resource: "subjectaccessreviews"}, []string{"create"}, nil},
		{names, request{group: "authentication.k8s.io", resource: "tokenreviews"}, nil, []string{"create"}},
		{
			controller,
			request{resource: "secrets", namespace: "atoll-system", name: "atoll-ca-agent"},
			[]string{"get", "update"},
			[]string{"delete", "list"},
		},
		{controller, request{group: "certificates.k8s.io", resource: "signers", name: "atoll.dev/agent"}, []string{"approve", "sign"}, nil},
		{controller, request{group: "certificates.k8s.io", resource: "signers", name: "atoll.dev/ovn-reader"}, []string{"approve", "sign"}, nil},
		{agent, request{group: "certificates.k8s.io", resource: "signers", name: "atoll.dev/ovn-reader"}, nil, []string{"approve", "sign"}},
		{
			agent,
			request{group: "certificates.k8s.io", resource: "certificatesigningrequests"},
			[]string{"create", "get"},
			[]string{"list", "watch", "update", "patch", "delete"},
		},
		{
			agent,
			request{resource: "configmaps", namespace: "atoll-system", name: "atoll-ca"},
			[]string{"get", "list", "watch"},
			[]string{"update", "patch", "delete"},
		},
		{
			agent,
			request{resource: "configmaps", namespace: "atoll-system", name: "atoll-nodes-shut-out"},
			[]string{"get", "list", "watch"},
			[]string{"update", "patch", "delete"},
		},
		{
			controller,
			request{resource: "configmaps", namespace: "atoll-system", name: "atoll-nodes-shut-out"},
			[]string{"get", "list", "watch"},
			[]string{"update", "patch", "delete"},
		},
		{agent, request{group: "inspect.atoll.dev", resource: "pods", subresource: "ping", namespace: "team"}, nil, []string{"create"}},
		{agent, request{group: "inspect.atoll.dev", resource: "pods", subresource: "capture", namespace: "team"}, nil, []string{"create"}},
		{controller, request{group: "inspect.atoll.dev", resource: "pods", subresource: "capture", namespace: "team"}, nil, []string{"create"}},
		{controller, pods, []string{"get", "list", "watch"}, []string{"create", "delete", "update", "patch", "deletecollection"}},
		{controller, request{resource: "pods", subresource: "status"}, []string{"patch"}, []string{"update"}},
		{controller, request{resource: "services"}, []string{"get", "list", "watch", "patch"}, []string{"create", "update", "delete"}},
		{controller, request{resource: "services", subresource: "status"}, nil, []string{"update", "patch"}},
		{controller, request{resource: "namespaces"}, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{controller, slices, []string{"get", "list", "watch", "create", "update", "delete"}, []string{"deletecollection"}},
		{controller, gateways, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{controller, gatewayStatus, []string{"update", "patch"}, nil},
		{
			controller,
			request{group: "apiextensions.k8s.io", resource: "customresourcedefinitions"},
			nil,
			[]string{"get", "list", "update", "create"},
		},
		{
			controller,
			request{group: "networking.k8s.io", resource: "networkpolicies"},
			[]string{"get", "list", "watch"},
			[]string{"create", "update", "patch", "delete"},
		},
		{
			controller,
			request{group: "policy.networking.k8s.io", resource: "clusternetworkpolicies"},
			[]string{"get", "list", "watch"},
			[]string{"create", "update", "patch", "delete"},
		},
		{controller, request{resource: "events", namespace: "team"}, []string{"create", "patch"}, []string{"delete"}},
		{
			controller,
			request{group: "coordination.k8s.io", resource: "leases", namespace: "atoll-system"},
			[]string{"get", "create", "update"},
			[]string{"delete"},
		},
		{
			controller,
			request{group: "coordination.k8s.io", resource: "leases", namespace: "kube-system"},
			nil,
			[]string{"get", "create", "update"},
		},
		{controller, request{resource: "secrets", namespace: "atoll-system"}, nil, []string{"get", "list"}},
		{agent, pods, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{agent, request{resource: "pods", subresource: "status"}, nil, []string{"update", "patch"}},
		{agent, request{resource: "nodes"}, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{agent, networks, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{agent, request{resource: "namespaces"}, nil, []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{agent, request{resource: "services"}, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{agent, request{resource: "events", namespace: "team"}, []string{"create"}, []string{"get", "list", "update", "patch", "delete"}},
		{
			agent,
			request{group: "coordination.k8s.io", resource: "leases", name: "atoll-controller", namespace: "atoll-system"},
			[]string{"get"},
			[]string{"create", "update", "patch", "delete"},
		},
		{agent, request{group: "coordination.k8s.io", resource: "leases", namespace: "kube-system"}, nil, []string{"get", "list", "watch"}},
		{agent, slices, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{agent, request{resource: "secrets", namespace: "atoll-system"}, nil, []string{"get", "list"}},
		{inspection, networks, []string{"get", "list", "watch"}, writes},
		{inspection, status, nil, writes},
		{inspection, tenants, []string{"get", "list", "watch"}, append([]string{"administer"}, writes...)},
		{inspection, settings, []string{"get", "list", "watch"}, writes},
		{inspection, request{group: "atoll.dev", resource: "nodereports"}, []string{"get", "list", "watch"}, writes},
		{inspection, request{group: "atoll.dev", resource: "networkviews", namespace: "team"}, nil, append([]string{"get", "list"}, writes...)},
		{inspection, pods, []string{"get", "list", "watch"}, writes},
		{inspection, request{resource: "pods", subresource: "status"}, nil, writes},
		{inspection, request{resource: "pods", subresource: "exec", namespace: "team"}, nil, writes},
		{inspection, request{resource: "nodes"}, []string{"get", "list", "watch"}, writes},
		{inspection, request{resource: "nodes", subresource: "proxy"}, nil, append([]string{"get"}, writes...)},
		{inspection, request{resource: "services"}, []string{"get", "list", "watch"}, writes},
		{inspection, request{resource: "namespaces"}, []string{"get", "list", "watch"}, writes},
		{inspection, slices, []string{"get", "list", "watch"}, writes},
		{inspection, gateways, []string{"get", "list", "watch"}, writes},
		{inspection, gatewayStatus, nil, writes},
		{inspection, request{group: "networking.k8s.io", resource: "networkpolicies"}, []string{"get", "list", "watch"}, writes},
		{inspection, request{group: "policy.networking.k8s.io", resource: "clusternetworkpolicies"}, []string{"get", "list", "watch"}, writes},
		{inspection, request{resource: "events", namespace: "team"}, []string{"list"}, writes},
		{inspection, request{group: "apps", resource: "deployments", namespace: "atoll-system"}, []string{"list"}, writes},
		{
			inspection,
			request{group: "coordination.k8s.io", resource: "leases", name: "atoll-controller", namespace: "atoll-system"},
			[]string{"get"},
			writes,
		},
		{inspection, request{resource: "configmaps", namespace: "atoll-system", name: "atoll-ovn"}, []string{"get"}, writes},
		{inspection, request{resource: "configmaps", namespace: "atoll-system", name: "atoll-ca"}, []string{"get", "list", "watch"}, writes},
		{
			inspection,
			request{resource: "configmaps", namespace: "atoll-system", name: "atoll-nodes-shut-out"},
			[]string{"get", "list", "watch"},
			writes,
		},
		{
			inspection,
			request{resource: "configmaps", namespace: "kube-system", name: "extension-apiserver-authentication"},
			[]string{"get"},
			writes,
		},
		{
			inspection, request{resource: "secrets", namespace: "atoll-system", name: "atoll-ca-central"}, nil, append([]string{"get", "list"},
				writes...),
		},
		{inspection, request{resource: "secrets", namespace: "team"}, nil, append([]string{"get", "list"}, writes...)},
		{inspection, request{resource: "serviceaccounts", subresource: "token", namespace: "atoll-system"}, nil, writes},
		{inspection, request{resource: "users"}, nil, []string{"impersonate"}},
		{inspection, clusterRoles, nil, append([]string{"escalate", "bind"}, writes...)},
		{inspection, request{group: "apiregistration.k8s.io", resource: "apiservices", name: "v1alpha1.inspect.atoll.dev"}, nil, writes},
		{inspection, request{group: "inspect.atoll.dev", resource: "databases", subresource: "proxy"}, nil, append([]string{"get"}, writes...)},
		{inspection, request{group: "authentication.k8s.io", resource: "tokenreviews"}, []string{"create"}, nil},
		{inspection, request{group: "authorization.k8s.io", resource: "subjectaccessreviews"}, []string{"create"}, nil},
		{
			inspection,
			request{group: "certificates.k8s.io", resource: "certificatesigningrequests"},
			[]string{"create", "get"},
			[]string{"list", "watch", "update", "patch", "delete"},
		},
		{inspection, request{group: "certificates.k8s.io", resource: "certificatesigningrequests", subresource: "approval"}, nil, writes},
		{inspection, request{group: "certificates.k8s.io", resource: "signers", name: "atoll.dev/inspect"}, nil, []string{"approve", "sign"}},
		{controller, request{group: "certificates.k8s.io", resource: "signers", name: "atoll.dev/inspect"}, []string{"approve", "sign"}, nil},
		{
			controller,
			request{group: "certificates.k8s.io", resource: "signers", name: "atoll.dev/inspect-server"},
			[]string{"approve", "sign"},
			nil,
		},
		{names, networks, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{names, request{resource: "namespaces"}, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{names, request{resource: "services"}, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{names, slices, []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}},
		{names, pods, nil, []string{"get", "list", "watch", "patch"}},
		{names, request{resource: "nodes"}, nil, []string{"get", "list", "watch", "patch"}},
		{names, request{resource: "secrets", namespace: "atoll-system"}, nil, []string{"get", "list"}},
	} {
		ask := func(verb string, want bool) {
			t.Helper()
			r := rule.request
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorization.SubjectAccessReview{
				Spec: authorization.SubjectAccessReviewSpec{
					User: rule.user,
					ResourceAttributes: &authorization.ResourceAttributes{
						Verb: verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
					},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Status.Allowed != want {
				t.Errorf("%s may %s %+v: %t, want %t", rule.user, verb, r, answer.Status.Allowed, want)
			}
		}
		for _, verb := range rule.may {
			ask(verb, true)
		}
		for _, verb := range rule.mayNot {
			ask(verb, false)
		}
	}
}
