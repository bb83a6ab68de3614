//go:build integration

package api

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/apiserver"
)

// testManifests has the server check every kustomization of dist/ as if it were applied.
func testManifests(t *testing.T, s *apiserver.Server) {
	// Objects in a namespace are refused while it does not exist.
	if err := s.Apply(t.Context(), dist+"/rbac"); err != nil {
		t.Fatal(err)
	}
	if err := s.EstablishGatewayAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(dist + "/*/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	overlays, err := filepath.Glob(dist + "/overlays/*/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Its kinds are the Prometheus operator's: TestMonitoring (test/e2e) has the server look at it by the operator's definitions.
	files = slices.DeleteFunc(append(files, overlays...), func(file string) bool { return filepath.Base(filepath.Dir(file)) == "monitoring" })
	if len(files) < 12 {
		t.Fatalf("found %d kustomizations: %q", len(files), files)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(strings.TrimPrefix(dir, dist+"/"), func(t *testing.T) {
			out, err := s.Kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", dir)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), "serverside-applied") {
				t.Errorf("nothing applied:\n%s", out)
			}
		})
	}
}

// testDocumentation has the server check the Networks and Tenants that the documentation shows.
func testDocumentation(t *testing.T, s *apiserver.Server) {
	var pages []byte
	for _, name := range []string{"network", "tenant"} {
		page, err := os.ReadFile("../../docs/api/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	checked := 0
	for block := range strings.SplitSeq(string(pages), "```yaml\n") {
		sample, _, found := strings.Cut(block, "```")
		if !found || !strings.Contains(sample, "kind: Network") && !strings.Contains(sample, "kind: Tenant") {
			continue
		}
		file := filepath.Join(t.TempDir(), "sample.yaml")
		if err := os.WriteFile(file, []byte(sample), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", file); err != nil {
			t.Error(err)
		}
		checked++
	}
	if checked < 2 {
		t.Error("the pages show no Network, or no Tenant")
	}
}
