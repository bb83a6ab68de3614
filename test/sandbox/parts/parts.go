// Package parts gathers what a sandbox is made of: Debian packages, Kubernetes, etcd, containerd, runc, CoreDNS,
// OVN and Open vSwitch, and the images that its pods run.
//
// In flow the source tree (nested Go modules that pin the versions), the machine's package sources, and what
// the user says is there already. Out flow paths in the cache. What is in the cache under its final name is
// complete: everything is made under another name and renamed at the end, so an interruption costs time only.
package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Parts are the programs and images of a sandbox.
type Parts struct {
	// Kubernetes is the directory of kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl.
	Kubernetes string
	// Containerd is the directory of containerd, ctr and containerd-shim-runc-v2.
	Containerd string
	// CNI is the directory of the CNI plugin portmap.
	CNI string
	// Etcd, Runc, CoreDNS and Netprobe are programs.
	Etcd, Runc, CoreDNS, Netprobe string

	OVN OVN
	// Images are archives to import on every node.
	Images []string
}

// Path is the search path with all the parts ahead of the machine's programs.
func (p Parts) Path() string {
	dirs := append(slices.Clone(p.OVN.Dirs), p.Kubernetes, p.Containerd, filepath.Dir(p.Etcd), filepath.Dir(p.Runc))
	return strings.Join(append(dirs, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"), ":")
}

// Need says which sandbox wants the parts. Only Cache and Source are mandatory.
type Need struct {
	Cache, Source string
	// The rest names parts that are on the machine already.
	KubernetesBin, ContainerdBin, Etcd, Runc, OVNPrefix string
}

// Progress is told about the steps of gathering.
type Progress interface {
	Do(title string, step func() error) error
	Note(format string, args ...any)
}

// Steps is how many steps Gather has.
const Steps = 9

// Gather makes all parts that are not there yet.
func Gather(ctx context.Context, need Need, progress Progress) (Parts, error) {
	parts := Parts{Kubernetes: need.KubernetesBin, Containerd: need.ContainerdBin, Etcd: need.Etcd, Runc: need.Runc}
	g := gatherer{need: need, note: progress.Note}
	endDownload := g.download(ctx)
	defer endDownload()
	err := run(progress, []step{
		{"Debian packages", func() error { return g.packages(ctx) }},
		{"OVN and Open vSwitch", func() (err error) {
			parts.OVN, err = g.ovn(ctx)
			return err
		}},
		{"runc", func() error { return g.program(ctx, runc, &parts.Runc) }},
		{"Kubernetes", func() error { return g.module(ctx, kubernetes, &parts.Kubernetes) }},
		{"etcd", func() error { return g.program(ctx, etcd, &parts.Etcd) }},
		{"containerd", func() error { return g.module(ctx, containerd, &parts.Containerd) }},
		{"CNI plugins", func() error { return g.module(ctx, cni, &parts.CNI) }},
		{"CoreDNS", func() error { return g.program(ctx, coredns, &parts.CoreDNS) }},
		{"images of the pods", func() error { return g.images(ctx, &parts) }},
	})
	if err != nil {
		return Parts{}, err
	}
	return parts, nil
}

// InstallPackages does the first step of Gather alone: it installs the Debian packages that the parts take, a C compiler among them.
func InstallPackages(ctx context.Context, need Need, progress Progress) error {
	g := gatherer{need: need, note: progress.Note}
	return progress.Do("Debian packages", func() error { return g.packages(ctx) })
}

// step is a part of gathering, with what a person reads of it.
type step struct {
	title string
	run   func() error
}

// run takes steps until one fails.
func run(progress Progress, steps []step) error {
	for _, s := range steps {
		if err := progress.Do(s.title, s.run); err != nil {
			return err
		}
	}
	return nil
}

type gatherer struct {
	need Need
	note func(format string, args ...any)
}

// command runs a program to its end. The error carries the end of what it printed.
func command(ctx context.Context, dir string, environment []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	// An interrupted build leaves no compiler behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, both bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &both
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		both.Write(stdout.Bytes())
		return "", fmt.Errorf("run %s: %w: %s", strings.Join(argv, " "), err, tail(both.String(), 15))
	}
	return stdout.String(), nil
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// complete makes a directory that is either complete under its name or not there: fill gets another directory,
// which is renamed when it succeeded. It waits for another program that fills a directory beside it. If that program has made the same
// directory, fill is not called.
func complete(ctx context.Context, path string, fill func(dir string) error) error {
	return completeAnew(ctx, path, false, fill)
}

// completeAnew is complete. With anew it calls fill in any case, and replaces what is there when fill has succeeded.
func completeAnew(ctx context.Context, path string, anew bool, fill func(dir string) error) error {
	unlock, err := Lock(ctx, filepath.Join(filepath.Dir(path), ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if !anew && exists(path) {
		return nil
	}
	sweep(filepath.Dir(path))
	partial, err := os.MkdirTemp(filepath.Dir(path), partialPrefix+"*")
	if err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	defer os.RemoveAll(partial) // of what is left when it was not renamed
	if err := os.Chmod(partial, 0o755); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	if err := fill(partial); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(path), os.Rename(partial, path)); err != nil {
		return fmt.Errorf("keep in cache: %w", err)
	}
	return nil
}

const (
	partialPrefix = ".partial-"
	// abandoned is the age at which what is being made is not being made any more.
	abandoned = 6 * time.Hour
)

// sweep removes what an interrupted run left half made.
func sweep(store string) {
	entries, err := os.ReadDir(store)
	if err != nil {
		return // then there is nothing, or making something new there will tell
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(entry.Name(), partialPrefix) && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(filepath.Join(store, entry.Name())) // the next run tries again
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
