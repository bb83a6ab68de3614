//go:build integration

package api

import (
	"os"
	"path/filepath"
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
	if len(files) < 8 {
		t.Fatalf("found %d kustomizations: %q", len(files), files)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
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
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for block := range strings.SplitSeq(string(page), "```yaml\n") {
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
		t.Error("the page shows no Network, or no Tenant")
	}
}
