package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const cgroupDir = "/sys/fs/cgroup"

// systemCgroup is where a node's daemons are, beside its kubelet's kubepods, as system.slice is on a machine with systemd. If they
// were in the root, each would weigh as much as all pods together, and a container that has a lock of the kernel for a moment
// would not get the processor to give it back.
const systemCgroup = "system"

// sandboxWeight is what a sandbox weighs beside other programs, of which one has 1.
const sandboxWeight = 4

// daemonsCgroup is the cgroup of a place's processes, from the root of a hierarchy.
func daemonsCgroup(r record, name string) string {
	group := filepath.Join(r.Options.Name, name)
	if slices.Contains(r.nodes(), name) {
		group = filepath.Join(group, systemCgroup)
	}
	return group
}

// makeCgroups makes a cgroup for each place, and for each node one for its daemons and one below which its kubelet works.
//
// On a machine with cgroup version 2 that is one directory, to which the controllers have to be handed down.
// With version 1 each controller has a hierarchy of its own, and in that of cpuset a new group may use nothing
// until it is told what.
func makeCgroups(r record) error {
	for _, root := range cgroupRoots(cgroupDir) {
		dir := filepath.Join(root, r.Options.Name)
		groups := []string{dir}
		for _, name := range append(r.nodes(), Central, Outside) {
			groups = append(groups, filepath.Join(dir, name))
		}
		for _, name := range r.nodes() {
			groups = append(groups, filepath.Join(root, daemonsCgroup(r, name)))
		}
		for _, group := range groups {
			if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup: %w", err)
			}
			if err := equip(group); err != nil {
				return err
			}
		}
		if err := weigh(dir); err != nil {
			return err
		}
	}
	return nil
}

// weigh sets a sandbox's weight where processor time is given out: in shares of 1024 or weights of 100 (cgroups(7)).
func weigh(group string) error {
	for file, one := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} {
		file = filepath.Join(group, file)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(file, fmt.Append(nil, sandboxWeight*one), 0o644); err != nil {
			return fmt.Errorf("weigh cgroup: %w", err)
		}
	}
	return nil
}

// processorRoot is the root of the hierarchy that gives out processor time.
func processorRoot() string {
	for _, root := range cgroupRoots(cgroupDir) {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
			return root
		}
		if slices.Contains(strings.Split(filepath.Base(root), ","), "cpu") {
			return root
		}
	}
	return cgroupDir
}

// cgroupRoots returns the roots of the hierarchies that a kubelet uses.
func cgroupRoots(dir string) []string {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
		return []string{dir}
	}
	var roots []string
	for _, controller := range []string{
		"cpu", "cpuacct", "cpu,cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids",
		"hugetlb", "net_cls", "net_prio", "net_cls,net_prio", "perf_event", "systemd",
	} {
		root := filepath.Join(dir, controller)
		info, err := os.Lstat(root) // a link is another name of a hierarchy that is listed too
		if err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
			roots = append(roots, root)
		}
	}
	return roots
}

// equip lets a new cgroup and those below it use what its parent may use.
func equip(group string) error {
	parent := filepath.Dir(group)
	if available, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers")); err == nil {
		for controller := range strings.FieldsSeq(string(available)) {
			file := filepath.Join(parent, "cgroup.subtree_control")
			if err := os.WriteFile(file, []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("hand down cgroup controller %s: %w", controller, err)
			}
		}
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(group, file), value, 0o644)
		}
		if err != nil {
			return fmt.Errorf("fill cgroup: %w", err)
		}
	}
	return nil
}

// cgroupsOf lists the cgroups of a sandbox, or of a node as <sandbox>/<node>, in all hierarchies, the innermost first.
func cgroupsOf(name string) ([]string, error) {
	tops, err := filepath.Glob(filepath.Join(cgroupDir, "*", name))
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	tops = append(tops, filepath.Join(cgroupDir, name))
	var groups []string
	for _, top := range tops {
		if info, err := os.Lstat(filepath.Dir(top)); err != nil || !info.IsDir() {
			continue
		}
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // ended while we looked
			}
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
	}
	slices.Sort(groups)
	slices.Reverse(groups)
	return groups, nil
}

// removeCgroups removes what is empty, and tells whether all of it was.
func removeCgroups(name string) (bool, error) {
	groups, err := cgroupsOf(name)
	if err != nil {
		return false, err
	}
	done := true
	for _, group := range groups {
		err := syscall.Rmdir(group)
		if errors.Is(err, syscall.EBUSY) {
			done = false // a process is still ending in it
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("remove cgroup %s: %w", group, err)
		}
	}
	return done, nil
}
