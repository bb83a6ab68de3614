//go:build integration

package api

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/test/apiserver"
)

const (
	dist = "../../dist"
	// Storage, and a database that is on no node, where TestAPI has them.
	inInfra, inClosed = "198.51.100.77", "198.51.100.99"
)

func TestAPI(t *testing.T) {
	s := apiserver.Start(t)
	if err := s.Establish(t.Context(), dist+"/crds"); err != nil {
		t.Fatal(err)
	}
	t.Run("manifests", func(t *testing.T) { testManifests(t, s) })
	t.Run("nodes unknown", func(t *testing.T) { testNodesUnknown(t, s) })
	if err := s.Apply(t.Context(), dist+"/overlays/sandbox"); err != nil {
		t.Fatal(err)
	}
	if err := change(t, s,
		`{"spec":{"infraCIDRs":["198.51.100.64/28"],"closedCIDRs":["172.30.0.1/32","172.31.0.0/24","198.51.100.96/28"]}}`); err != nil {
		t.Fatal(err)
	}
	t.Run("documentation", func(t *testing.T) { testDocumentation(t, s) })
	t.Run("installation", func(t *testing.T) { testInstallation(t, s) })
	t.Run("networks", func(t *testing.T) { testNetworks(t, s) })
	t.Run("network updates", func(t *testing.T) { testNetworkUpdates(t, s) })
	t.Run("columns", func(t *testing.T) { testColumns(t, s) })
	t.Run("rights", func(t *testing.T) { testRights(t, s) })
	t.Run("pods", func(t *testing.T) { testPods(t, s) })
	t.Run("namespaces", func(t *testing.T) { testNamespaces(t, s) })
	t.Run("tenants", func(t *testing.T) { testTenants(t, s) })
	t.Run("tenants' admins", func(t *testing.T) { testTenantAdmins(t, s) })
	t.Run("mirrors", func(t *testing.T) { testMirrors(t, s) })
	t.Run("stolen controller", func(t *testing.T) { testStolenController(t, s) })
	t.Run("services", func(t *testing.T) { testServices(t, s) })
	t.Run("nodes", func(t *testing.T) { testNodes(t, s) })
	t.Run("node reports", func(t *testing.T) { testNodeReports(t, s) })
	t.Run("shut out", func(t *testing.T) { testShutOut(t, s) })
	t.Run("keys", func(t *testing.T) { testKeys(t, s) })
	makers := securityNamespaces(t, s, clientFor(t, s.RESTConfig()))
	t.Run("pod security", func(t *testing.T) { testPodSecurity(t, s, makers) })
	t.Run("probes", func(t *testing.T) { testProbes(t, s, makers) })
	t.Run("endpoints", func(t *testing.T) { testEndpoints(t, s) })
	t.Run("external addresses", func(t *testing.T) { testExternal(t, s) })
	t.Run("settings", func(t *testing.T) { testSettings(t, s) })
	t.Run("settings kept", func(t *testing.T) { testSettingsKept(t, s) })
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
