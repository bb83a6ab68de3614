package sandbox

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/atoll-net/atoll/test/sandbox/pki"
)

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
	}
	for _, n := range nodesUpTo(r.Options.Nodes) {
		id := pki.Identity{User: "system:node:" + n.name, Groups: []string{"system:nodes"}}
		configs["kubelet-"+n.name] = id
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
