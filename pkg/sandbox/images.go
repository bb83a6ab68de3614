package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const importLimit = 3 * time.Minute

// importImages puts the images on all nodes. A sandbox in which Atoll is to be installed gets those of Atoll and OVN too.
func (s *Sandbox) importImages(ctx context.Context) error {
	archives := s.record.Parts.Images
	installed := s.record.Options.Bare || s.record.Options.WithoutAtoll
	if installed {
		release, err := s.releaseImages(ctx)
		if err != nil {
			return err
		}
		archives = append(slices.Clone(archives), release...)
	}
	if err := s.waitDaemons(ctx, s.Nodes(), "containerd"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	ctr := filepath.Join(s.record.Parts.Containerd, "ctr")
	for _, node := range s.Nodes() {
		group.Go(func() error {
			for _, archive := range archives {
				if _, err := s.Exec(ctx, node, ctr, "--address", containerdSocket, "-n", "k8s.io", "images", "import", "--local", archive); err != nil {
					return err
				}
			}
			if installed {
				return s.tagImages(ctx, node, ctr)
			}
			return nil
		})
	}
	return group.Wait()
}

// The images of a release are called by their version; in dist/overlays/sandbox they have one tag for all versions.
const (
	releasePrefix = "ghcr.io/atoll-net/"
	releaseTag    = ":sandbox"
)

// tagImages gives a node's images of the release the tag by which the sandbox's manifests call them.
func (s *Sandbox) tagImages(ctx context.Context, node, ctr string) error {
	containerd := []string{ctr, "--address", containerdSocket, "-n", "k8s.io", "images"}
	names, err := s.Exec(ctx, node, append(slices.Clone(containerd), "ls", "-q")...)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		image, tag, _ := strings.Cut(strings.TrimPrefix(name, releasePrefix), ":")
		if !strings.HasPrefix(name, releasePrefix) || ":"+tag == releaseTag {
			continue
		}
		if _, err := s.Exec(ctx, node, append(slices.Clone(containerd), "tag", "--force", name, releasePrefix+image+releaseTag)...); err != nil {
			return err
		}
	}
	return nil
}

// releaseImages makes the images that clusters get (make images), for this machine's processor, and returns their archives. The cache keeps them while nothing of
// them changes.
func (s *Sandbox) releaseImages(ctx context.Context) ([]string, error) {
	out := s.record.layout().in(Central, "images")
	build := exec.CommandContext(ctx, "go", "run", "./images/release", "build", "-own", "-out="+out, "-cache="+s.record.Options.Cache, "-reuse="+filepath.Join(s.record.Options.Cache, "release"))
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
