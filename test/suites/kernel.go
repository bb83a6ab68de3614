package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// kernelPackages have tests of packets, which run on the userspace datapath with the other integration tests, and on the
// kernel's here. They ask ovn.Datapath which it is. Tests are chosen by their names, as go test -run does: those that send no
// packet through Open vSwitch are not among them. Without a pattern all integration tests of the package are chosen.
func kernelPackages() []struct{ dir, tests string } {
	return []struct{ dir, tests string }{
		{"pkg/agent", ""},
		{"pkg/daemons/chassis", "^TestRestarts$"},
		{"pkg/controller/decide", "WithPackets$"},
		{"pkg/node/porthole", ""},
		{"test/policy/agree", "RandomWithPackets$"},
	}
}

// kernel runs the tests of packets on the kernel's datapath, in a kernel that is booted for each package (test/kernel).
func kernel(ctx context.Context, r *runner, out *result) error {
	need, err := need()
	if err != nil {
		return err
	}
	got, err := parts.GatherKernel(ctx, need, progress.New(r.out, parts.KernelSteps))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "atoll-suite-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "kernel")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./test/kernel")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build test/kernel: %w\n%s", err, said)
	}
	inside := *r
	inside.environment = append(slices.Clone(r.environment), "ATOLL_KERNEL="+got.Kernel, ovn.PrefixVariable+"="+ovnPrefix(got.OVN))
	// Some tests take seconds each.
	out.live = true
	for _, p := range kernelPackages() {
		if p.tests == "" {
			tagged, err := integrationTests(p.dir)
			if err != nil {
				return err
			}
			p.tests = anyOf(tagged)
		}
		if err := inside.goTest(ctx, out, "-tags=integration", "-count=1", "-timeout=30m", "-exec="+program, "-run="+p.tests,
			"./"+p.dir); err != nil {
			return err
		}
	}
	return nil
}
