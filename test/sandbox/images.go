package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// The images of a release are called by their version; in dist/overlays/sandbox they have one tag for all versions.
const (
	releasePrefix = "ghcr.io/atoll-net/"
	releaseTag    = ":sandbox"
)

// placeImages gives all nodes their images, before containerd starts there: those of the sandbox's own pods, and those of Atoll and OVN.
// They are imported once, into the cache: a node gets a copy that shares their files.
func (s *Sandbox) placeImages(ctx context.Context) error {
	release, err := s.releaseImages(ctx)
	if err != nil {
		return err
	}
	archives := append(slices.Clone(s.record.Parts.Images), release...)
	store := parts.Store{Containerd: s.record.Parts.Containerd, Archives: archives, Alias: releaseAlias}
	made, err := store.Gather(ctx, s.record.Options.Cache)
	if err != nil {
		return err
	}
	for _, node := range s.Nodes() {
		if err := parts.CopyStore(ctx, made, s.record.layout().in(node, "containerd")); err != nil {
			return err
		}
	}
	return nil
}

// releaseAlias is the name by which the sandbox's manifests call an image of the release, or "".
func releaseAlias(name string) string {
	image, tag, _ := strings.Cut(strings.TrimPrefix(name, releasePrefix), ":")
	if !strings.HasPrefix(name, releasePrefix) || ":"+tag == releaseTag {
		return ""
	}
	return releasePrefix + image + releaseTag
}

// releaseImages makes the images that clusters get (make images), for this machine's processor, and returns their archives. The cache
// keeps them while nothing of them changes.
func (s *Sandbox) releaseImages(ctx context.Context) ([]string, error) {
	out := s.record.layout().in(Central, "images")
	cache := s.record.Options.Cache
	build := exec.CommandContext(ctx, "go", "run", "./images/release", "build", "-own",
		"-out="+out, "-cache="+cache, "-reuse="+filepath.Join(cache, "release"))
	build.Dir = s.record.Options.Source
	// The settings of make build: with others, Go would compile all that the programs have in common a second time.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
	if told, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build images: %w\n%s", err, told)
	}
	archives, err := filepath.Glob(filepath.Join(out, "*.tar"))
	if err == nil && len(archives) == 0 {
		err = fmt.Errorf("none in %s", out)
	}
	if err != nil {
		return nil, fmt.Errorf("find images: %w", err)
	}
	return archives, nil
}
