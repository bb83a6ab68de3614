package sandbox

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/atoll-net/atoll/pkg/sandbox/pki"
)

// Users of the API beside Kubernetes' own. Their certificates name the ServiceAccounts that Atoll's programs have on
// a real cluster, so that the same RBAC rules decide.
const (
	controllerUser = "system:serviceaccount:atoll-system:atoll-controller"
	agentUser      = "system:serviceaccount:atoll-system:atoll-agent"
	namesUser      = "system:serviceaccount:atoll-system:atoll-dns"
)

// serviceAccountGroups are the groups of every ServiceAccount of the namespace atoll-system.
var serviceAccountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:atoll-system"}

// agentGroup, with a node's name, tells which node an agent is on: it has no token that does (dist/admission/node-reports.yaml).
const agentGroup = "atoll.dev:node:"

// agentConfig is the client configuration of a node's agent.
func agentConfig(n node) string { return "atoll-agent-" + n.name }

// makeIdentities writes all certificates and client configurations of a sandbox.
func makeIdentities(r record) error {
	l := r.layout()
	authority, err := pki.New(l.pki(), "atoll-sandbox "+r.ID)
	if err != nil {
		return err
	}
	certificates := map[string]pki.Identity{
		"kube-apiserver": {
			User:      "kube-apiserver",
			Names:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), centralAddress(), hostIn(serviceNet, 1)},
		},
		"kube-apiserver-kubelet-client": {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"front-proxy-client":            {User: "front-proxy-client"},
	}
	configs := map[string]pki.Identity{
		"admin":                   {User: "atoll-sandbox-admin", Groups: []string{"system:masters"}},
		"kube-controller-manager": {User: "system:kube-controller-manager"},
		"kube-scheduler":          {User: "system:kube-scheduler"},
		"kube-proxy":              {User: "system:kube-proxy"},
		"atoll-controller":        {User: controllerUser, Groups: serviceAccountGroups},
		"atoll-dns":               {User: namesUser, Groups: serviceAccountGroups},
	}
	for _, n := range nodesUpTo(r.Options.Nodes) {
		id := pki.Identity{User: "system:node:" + n.name, Groups: []string{"system:nodes"}}
		configs["kubelet-"+n.name] = id
		configs[agentConfig(n)] = pki.Identity{User: agentUser, Groups: append(slices.Clone(serviceAccountGroups), agentGroup+n.name)}
		id.Names, id.Addresses = []string{n.name}, []netip.Addr{n.address(), n.address6()}
		certificates["kubelet-server-"+n.name] = id
	}
	for name, id := range certificates {
		if _, err := authority.Issue(name, id); err != nil {
			return err
		}
	}
	if _, err := authority.IssueKey("service-accounts"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.kubeconfig("admin")), 0o700); err != nil {
		return fmt.Errorf("make kubeconfig directory: %w", err)
	}
	for name, id := range configs {
		if err := authority.Kubeconfig(l.kubeconfig(name), apiServer(), name, id); err != nil {
			return err
		}
	}
	return nil
}
