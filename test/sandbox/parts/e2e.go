package parts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// E2E is what Kubernetes' own end-to-end tests are made of. The sandbox itself needs none of it.
type E2E struct {
	// Programs is the directory of e2e.test, of ginkgo, which runs it on several processes, and of agnhost, which most of
	// its pods run, with the certificate that agnhost serves.
	Programs string
	// Pause is the program of a pod that does nothing.
	Pause string
	// Tree is a file system of Debian packages, unpacked and not configured, as a base of images.
	Tree string
}

// E2ESteps is how many steps GatherE2E has.
const E2ESteps = 2

var (
	e2eTests = module{
		name: "e2e", dir: upstream, packages: []string{"github.com/onsi/ginkgo/v2/ginkgo", "k8s.io/kubernetes/test/images/agnhost"},
		versioned: "k8s.io/kubernetes",
		stamped:   []string{"k8s.io/component-base/version"},
		hint:      "about 6 CPU minutes",
		also:      addE2E,
	}
	// What the tests call in their pods, and the servers that some of their images are.
	e2ePackages = []string{
		"base-files", "base-passwd", "bash", "bind9-dnsutils", "busybox-static", "coreutils", "curl", "dash", "findutils",
		"grep", "hostname", "iproute2", "iputils-ping", "libc-bin", "mawk", "netcat-openbsd", "nginx", "procps", "sed", "wget",
	}
)

// GatherE2E makes what the end-to-end tests are made of, unless it is there already.
func GatherE2E(ctx context.Context, need Need, progress Progress) (E2E, error) {
	g := gatherer{need: need, note: progress.Note}
	var got E2E
	err := run(progress, []step{
		{"Kubernetes' end-to-end tests", func() error { return g.module(ctx, e2eTests, &got.Programs) }},
		{"programs of the tests' pods", func() (err error) {
			if err := g.program(ctx, pause, &got.Pause); err != nil {
				return err
			}
			got.Tree, err = g.tree(ctx, "e2e-tree", e2ePackages)
			return err
		}},
	})
	return got, err
}

// addE2E builds the test binary, which is the test of a package, beside the programs.
func addE2E(ctx context.Context, source, out string, arguments []string) error {
	tool, err := goCommand()
	if err != nil {
		return err
	}
	environment := buildEnvironment("0")
	argv := append([]string{tool, "test", "-c"}, arguments[1:]...)
	argv = append(argv, "-o", filepath.Join(out, "e2e.test"), "k8s.io/kubernetes/test/e2e")
	if _, err := command(ctx, source, environment, argv...); err != nil {
		return err
	}
	kubernetesDir, err := command(ctx, source, environment, tool, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		from := filepath.Join(strings.TrimSpace(kubernetesDir), "test/images/agnhost/porter", name)
		if err := copyProgram(from, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	return nil
}

// tree unpacks Debian packages and all that they depend on into a directory of the cache.
func (g gatherer) tree(ctx context.Context, name string, packages []string) (string, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q", fallback, runtime.GOARCH, packages))
	path := filepath.Join(g.need.Cache, "parts", fmt.Sprintf("%s-%x", name, sum[:6]))
	if exists(path) {
		return path, nil
	}
	if err := g.packages(ctx); err != nil { // the archive's keys are one of them
		return "", err
	}
	g.note("fetching packages of Debian %s", fallback)
	return path, complete(ctx, path, func(partial string) error {
		scratch, err := os.MkdirTemp(filepath.Dir(path), partialPrefix+"apt-")
		if err != nil {
			return fmt.Errorf("make cache: %w", err)
		}
		defer os.RemoveAll(scratch)
		apt, err := newAptRoot(scratch, fallback)
		if err != nil {
			return err
		}
		if err := apt.update(ctx); err != nil {
			return err
		}
		if err := apt.download(ctx, packages); err != nil {
			return err
		}
		// The one with the links that others' files are below comes first.
		debs, err := filepath.Glob(filepath.Join(apt.archives(), "base-files_*.deb"))
		if err != nil || len(debs) != 1 {
			return fmt.Errorf("unpack packages: base-files is not in %s", apt.archives())
		}
		all, err := filepath.Glob(filepath.Join(apt.archives(), "*.deb"))
		if err != nil {
			return fmt.Errorf("list packages: %w", err)
		}
		return extract(ctx, append(debs, all...), partial)
	})
}
