package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

const (
	// endLimit is how long the processes may take to vanish after SIGKILL, and the cgroups to empty.
	endLimit = 30 * time.Second
	// pollEvery is the time between two looks at a condition.
	pollEvery = 100 * time.Millisecond
)

// Down ends the sandbox and removes everything of it but the cache, whatever state it is in. Without a sandbox
// it does nothing. The state of a sandbox of another name it leaves alone: the processes of that one would go on without it.
func Down(ctx context.Context, opts Options, out io.Writer) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	if r, err := loadRecord(opts.State); err == nil && r.Options.Name != opts.Name {
		return fmt.Errorf("take down sandbox: %s is the state of sandbox %s: say --name=%[2]s", opts.State, r.Options.Name)
	}
	unlock, err := lock(ctx, opts.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := remove(ctx, opts, progress.New(out, removeSteps).Do); err != nil {
		return err
	}
	if err := os.Remove(lockPath(opts.Name)); err != nil {
		return fmt.Errorf("remove lock: %w", err)
	}
	left, err := Leftovers(opts)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("take down sandbox: still there: %v", left)
	}
	return err
}

const removeSteps = 4

// remove takes a sandbox away. Its steps go from what uses something to what is used, and each works when the
// ones before had nothing to do. do runs one step.
func remove(ctx context.Context, opts Options, do func(title string, step func() error) error) error {
	if err := do("end processes", func() error { return endProcesses(ctx, opts.Name) }); err != nil {
		return err
	}
	if err := do("remove network namespaces", func() error { return removeNamespaces(opts.Name) }); err != nil {
		return err
	}
	err := do("remove cgroups", func() error {
		return poll(ctx, endLimit, "the sandbox's cgroups to be empty", func(context.Context) (bool, error) {
			return removeCgroups(opts.Name)
		})
	})
	if err != nil {
		return err
	}
	return do("remove state", func() error { return removeState(opts.State) })
}

// endProcesses kills the first process of each place, with which the kernel ends the others there, and then
// whatever else carries the sandbox's mark.
func endProcesses(ctx context.Context, name string) error {
	return poll(ctx, endLimit, "the sandbox's processes to end", func(context.Context) (bool, error) {
		processes, err := processesOf(name)
		if err != nil {
			return false, err
		}
		someFirst := false
		for _, p := range processes {
			if p.first {
				someFirst = true
				p.kill(name)
			}
		}
		for _, p := range processes {
			if !someFirst {
				p.kill(name)
			}
		}
		return len(processes) == 0, nil
	})
}

func removeNamespaces(name string) error {
	namespaces, err := namespacesOf(name)
	if err != nil {
		return err
	}
	for _, ns := range namespaces {
		if err := removeNamespace(ns); err != nil {
			return err
		}
	}
	return unshareDir(namespaceDir)
}

// removeState removes the state directory, if it is one: a directory that is not provably ours is left alone.
func removeState(state string) error {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at state directory: %w", err)
	}
	if len(entries) > 0 && !isState(state) {
		return fmt.Errorf("remove state directory: %s holds no sandbox; it is left alone", state)
	}
	points, err := place.MountsBelow(state)
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	// The record goes last: an interrupted removal can be taken up again.
	for _, entry := range entries {
		if path := state + "/" + entry.Name(); path != (layout{state}).record() {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove state: %w", err)
			}
		}
	}
	if err := os.RemoveAll(state); err != nil {
		return fmt.Errorf("remove state: %w", err)
	}
	return nil
}

// isState recognises a state directory by its record, and one that has lost its record by what else is in it:
// places of ours, and nothing that we do not make.
func isState(state string) bool {
	l := layout{state}
	if _, err := os.Stat(l.record()); err == nil {
		return true
	}
	made := []string{l.record() + ".partial", l.pki(), l.logs(), filepath.Dir(l.kubeconfig("x")), filepath.Dir(l.place("x"))}
	entries, err := os.ReadDir(state)
	if err != nil || !allIn(entries, func(name string) bool { return slices.Contains(made, filepath.Join(state, name)) }) {
		return false
	}
	places, err := os.ReadDir(filepath.Dir(l.place("x")))
	return err == nil && len(places) > 0 && allIn(places, isPlace)
}

func allIn(entries []fs.DirEntry, known func(name string) bool) bool {
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !known(e.Name()) })
}

// poll looks at a condition until it holds. An error ends it at once; so does the limit, naming what was
// waited for.
func poll(ctx context.Context, limit time.Duration, what string, condition func(context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		done, err := condition(limited)
		if err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("wait for %s: %w", what, ctx.Err())
			}
			return fmt.Errorf("wait for %s: not so after %s", what, limit)
		}
	}
}
