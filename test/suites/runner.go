package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/tier"
)

// tools is the directory of the module that pins the developer tools.
const tools = "test/tools"

// runner runs suites from the root of the repository.
type runner struct {
	out      io.Writer
	fuzzTime time.Duration
	// all: nothing is left out, and what is random is drawn anew.
	all bool
	// settings are environment variables that tell tests their tier and their seed.
	settings []string
	// compiler and parts provide what suites need of other projects, once. parts returns environment variables that name it.
	compiler func() error
	parts    func() ([]string, error)
	// environment is what parts returned, for the suites that need it.
	environment []string
	// unsteady is the list of tests that passed only when they were run again.
	unsteady unsteadyList
}

func newRunner(ctx context.Context, out io.Writer, all bool) *runner {
	var lines sync.Mutex
	shared := &prefixed{lines: &lines, out: out, prefix: fmt.Sprintf("%-11s  ", "parts")}
	r := &runner{out: out, all: all, settings: settings(all), unsteady: unsteadyList{filepath.Join(sandbox.DefaultCache, "unsteady")}}
	r.compiler = sync.OnceValue(func() error {
		need, err := need()
		if err != nil {
			return err
		}
		return parts.InstallPackages(ctx, need, progress.New(shared, 1))
	})
	r.parts = sync.OnceValues(func() ([]string, error) {
		// Two that install Debian packages would be in each other's way.
		if err := r.compiler(); err != nil {
			return nil, err
		}
		return gather(ctx, shared)
	})
	return r
}

// settings returns the environment variables of the tests: their tier and their seeds. A variable that is set already keeps its value,
// so that a user can repeat a failure.
func settings(all bool) []string {
	seed := uint64(tier.FixedSeed)
	if all {
		seed = uint64(time.Now().UnixNano())
	}
	said := []string{fmt.Sprintf("%s=%d", tier.SeedVariable, seed), fmt.Sprintf("%s=%d", tier.RapidSeedVariable, seed)}
	if all {
		said = append(said, tier.Variable+"=all")
	}
	return slices.DeleteFunc(said, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return os.Getenv(name) != ""
	})
}

// provide returns r with what a suite needs.
func (r *runner) provide(n needs) (*runner, error) {
	mine := *r
	var err error
	switch n {
	case needsCompiler:
		err = r.compiler()
	case needsParts:
		mine.environment, err = r.parts()
	}
	return &mine, err
}

// beside runs lanes of suites to their ends at the same time, whatever happens. One alone prints as it is.
func (r *runner) beside(ctx context.Context, group []lane) []result {
	var (
		results = make([][]result, len(group))
		doing   sync.WaitGroup
		lines   sync.Mutex
	)
	for i, l := range group {
		doing.Go(func() {
			for _, s := range l {
				if len(results[i]) > 0 && ctx.Err() != nil {
					return
				}
				out := r.out
				if len(group) > 1 {
					named := &prefixed{lines: &lines, out: r.out, prefix: fmt.Sprintf("%-11s  ", s.name)}
					defer named.end()
					out = named
				}
				results[i] = append(results[i], r.suite(ctx, s, out))
			}
		})
	}
	doing.Wait()
	return slices.Concat(results...)
}

// suite runs s to its end, unless what it needs is missing.
func (r *runner) suite(ctx context.Context, s suite, out io.Writer) result {
	fmt.Fprintf(out, "\n== %s\n", s.name)
	got := result{name: s.name, out: out}
	mine, err := r.provide(s.needs)
	got.began = time.Now()
	if err == nil {
		mine.out = out
		err = s.run(ctx, mine, &got)
	}
	if err != nil {
		got.record(s.name, err)
	}
	got.took = time.Since(got.began)
	return got
}

// need is what parts are gathered for, and where.
func need() (parts.Need, error) {
	source, err := filepath.Abs(".")
	if err != nil {
		return parts.Need{}, fmt.Errorf("find source tree: %w", err)
	}
	return parts.Need{Cache: sandbox.DefaultCache, Source: source}, nil
}

// gather provides what the tests need of other projects.
func gather(ctx context.Context, out io.Writer) ([]string, error) {
	need, err := need()
	if err != nil {
		return nil, err
	}
	got, err := parts.Gather(ctx, need, progress.New(out, parts.Steps))
	if err != nil {
		return nil, err
	}
	return []string{
		apiserver.EnvKubeBin + "=" + got.Kubernetes,
		apiserver.EnvEtcd + "=" + got.Etcd,
		"ATOLL_COREDNS=" + got.CoreDNS,
		"ATOLL_CONTAINERD=" + got.Containerd,
		"ATOLL_RUNC=" + got.Runc,
		ovn.PrefixVariable + "=" + ovnPrefix(got.OVN),
	}, nil
}

// ovnPrefix is the directory by which tests find OVN.
func ovnPrefix(o parts.OVN) string {
	prefix, _ := strings.CutSuffix(o.NorthboundSchema, "usr/share/ovn/ovn-nb.ovsschema")
	return filepath.Clean(prefix)
}

// tool builds one of the pinned tools, which the Go tool chain keeps in its cache, and returns where it is.
func (r *runner) tool(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", name)
	cmd.Dir = tools
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var failure bytes.Buffer
	cmd.Stderr = &failure
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, failure.Bytes())
	}
	return strings.TrimSpace(string(path)), nil
}

// output runs a command in a directory and returns its standard output.
func (r *runner) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := interruptible(cmd).Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, failure.Bytes())
	}
	return string(out), nil
}

// silent runs a command that prints nothing when all is well.
func (r *runner) silent(ctx context.Context, dir, name string, args ...string) error {
	out, err := r.output(ctx, dir, name, args...)
	if err == nil && out != "" {
		err = errors.New(out)
	}
	return err
}

// loud runs a command whose output the reader wants to see as it comes.
func (r *runner) loud(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = r.out, r.out
	if err := interruptible(cmd).Run(); err != nil {
		return fmt.Errorf("run %s: %w", filepath.Base(name), err)
	}
	return nil
}
