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

	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/pkg/sandbox/parts"
	"github.com/atoll-net/atoll/pkg/sandbox/progress"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
)

// tools is the directory of the module that pins the developer tools.
const tools = "test/tools"

// runner runs suites from the root of the repository.
type runner struct {
	out      io.Writer
	fuzzTime time.Duration
	// environment names what gather provided; nil before.
	environment []string
}

// beside runs suites to their ends at the same time, whatever happens. One alone prints as it is.
func (r *runner) beside(ctx context.Context, group []suite) []result {
	// What they need is provided once, before any begins.
	var missing error
	if slices.ContainsFunc(group, func(s suite) bool { return s.parts }) {
		missing = r.gather(ctx)
	}
	var (
		results = make([]result, len(group))
		doing   sync.WaitGroup
		lines   sync.Mutex
	)
	for i, s := range group {
		out := r.out
		if len(group) > 1 {
			named := &prefixed{lines: &lines, out: r.out, prefix: fmt.Sprintf("%-11s  ", s.name)}
			defer named.end()
			out = named
		}
		mine := *r
		mine.out = out
		doing.Go(func() {
			err := missing
			if !s.parts {
				err = nil
			}
			results[i] = mine.suite(ctx, s, err)
		})
	}
	doing.Wait()
	return results
}

// suite runs s to its end, unless what it needs is missing.
func (r *runner) suite(ctx context.Context, s suite, missing error) result {
	fmt.Fprintf(r.out, "\n== %s\n", s.name)
	out := result{name: s.name, out: r.out, began: time.Now()}
	err := missing
	if err == nil {
		err = s.run(ctx, r, &out)
	}
	if err != nil {
		out.record(s.name, err)
	}
	out.took = time.Since(out.began)
	return out
}

// gather provides what the tests need of other projects.
func (r *runner) gather(ctx context.Context) error {
	if r.environment != nil {
		return nil
	}
	source, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("find source tree: %w", err)
	}
	got, err := parts.Gather(ctx, parts.Need{Cache: sandbox.DefaultCache, Source: source}, progress.New(r.out, parts.Steps))
	if err != nil {
		return err
	}
	r.environment = []string{
		apiserver.EnvKubeBin + "=" + got.Kubernetes,
		apiserver.EnvEtcd + "=" + got.Etcd,
		"ATOLL_COREDNS=" + got.CoreDNS,
		"ATOLL_CONTAINERD=" + got.Containerd,
		"ATOLL_RUNC=" + got.Runc,
		ovn.PrefixVariable + "=" + ovnPrefix(got.OVN),
	}
	return nil
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
