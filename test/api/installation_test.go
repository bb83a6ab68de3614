//go:build integration

package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/apiserver"
)

// testInstallation: the kustomization that docs/install.md shows replaces the image of every program, and sets what it says of the cluster.
func testInstallation(t *testing.T, s *apiserver.Server) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n# kustomization.yaml")
	if len(blocks) != 3 {
		t.Fatalf("the page shows %d parts of a kustomization, not 2", len(blocks)-1)
	}
	text := ""
	for _, block := range blocks[1:] {
		part, _, _ := strings.Cut(block, "```")
		text += "#" + part
	}
	dir := t.TempDir()
	absolute, err := filepath.Abs(dist)
	if err != nil {
		t.Fatal(err)
	}
	// kustomize wants paths from where the file is.
	relative, err := filepath.Rel(dir, absolute)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "path/to/atoll/dist", relative)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := s.Kubectl(t.Context(), "kustomize", dir)
	if err != nil {
		t.Fatal(err)
	}
	images := 0
	for line := range strings.Lines(string(out)) {
		if image, found := strings.CutPrefix(strings.TrimLeft(line, " -"), "image: "); found {
			images++
			if strings.TrimSpace(image) != "registry.example.com/atoll/atoll:v0.1" {
				t.Errorf("a program is still of %s", image)
			}
		}
	}
	// The controller, inspection, the agent, and the two containers of the DNS program's pod.
	if images != 5 || !strings.Contains(string(out), "192.0.2.0/28") {
		t.Errorf("%d images replaced, or the cluster's ranges not set:\n%s", images, out)
	}
}
