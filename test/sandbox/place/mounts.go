package place

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// private is where a place keeps what its mounts need: on its own /run, so that it goes with the place.
const private = "/run/.place"

// mountAll gives the place its own view of the machine's file system. It runs in the place's mount namespace,
// which at that point is a copy of the machine's.
func mountAll(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// The state directory is held open while the directories above it are covered.
	state, err := unix.Open(spec.State, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open state directory %s: %w", spec.State, err)
	}
	defer unix.Close(state)
	if err := mountKernel(); err != nil {
		return err
	}
	if err := releaseNamespaces(); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for _, dir := range spec.Directories {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	for _, dir := range spec.Overlays {
		if err := overlay(dir); err != nil {
			return err
		}
	}
	if err := bind(fmt.Sprintf("/proc/self/fd/%d", state), spec.State); err != nil {
		return err
	}
	for _, b := range spec.Binds {
		if err := bind(b.Source, b.Target); err != nil {
			return err
		}
	}
	if err := writeFiles("/", spec.Files); err != nil {
		return err
	}
	if err := writeFiles("/proc/sys", spec.Settings); err != nil {
		return err
	}
	if err := coverKernelFiles(spec.Kernel); err != nil {
		return err
	}
	// kubelet and containerd hand mounts to containers, which takes shared propagation; nothing outside shares it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

// mountKernel mounts /proc for the place's processes and /sys for its network, with the machine's cgroups in it.
func mountKernel() error {
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	held, err := unix.OpenTree(unix.AT_FDCWD, cgroupDir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("hold cgroups: %w", err)
	}
	defer unix.Close(held)
	if err := mountSys(); err != nil {
		return err
	}
	if err := unix.MoveMount(held, "", unix.AT_FDCWD, cgroupDir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount cgroups: %w", err)
	}
	return nil
}

const cgroupDir = "/sys/fs/cgroup"

// mountSys makes /sys of what is in a sysfs of the place's network, but does not mount that itself there: whoever then goes to the
// cgroups does not come through sysfs. Each step through it takes a lock that all of the machine have in common, as whoever
// makes or removes a link does, who has the lock of all links meanwhile. Hundreds of a kubelet's threads that look at cgroups
// would hold up the links, and those the place's switch; with three nodes on one kernel, three times as much.
// (kernfs_dop_revalidate in Linux 6.18.)
func mountSys() error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := mount("sysfs", "/sys", "sysfs", flags, ""); err != nil {
		return err
	}
	parts, err := hold("/sys", "/sys/fs")
	if err != nil {
		return err
	}
	defer func() {
		for _, held := range parts {
			unix.Close(held)
		}
	}()
	if err := mount("tmpfs", "/sys", "tmpfs", flags, "mode=755"); err != nil {
		return err
	}
	if err := os.MkdirAll(cgroupDir, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	for dir, held := range parts {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make mount point: %w", err)
		}
		if err := unix.MoveMount(held, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}

// hold opens mounts of their own for the directories in parents, by their paths; not for the parents.
func hold(parents ...string) (map[string]int, error) {
	out := map[string]int{}
	for _, parent := range parents {
		entries, err := os.ReadDir(parent)
		if err != nil {
			return out, fmt.Errorf("list %s: %w", parent, err)
		}
		for _, e := range entries {
			dir := filepath.Join(parent, e.Name())
			if !e.IsDir() || dir == cgroupDir || slices.Contains(parents, dir) {
				continue
			}
			held, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return out, fmt.Errorf("hold %s: %w", dir, err)
			}
			out[dir] = held
		}
	}
	return out, nil
}

// releaseNamespaces unmounts the named network namespaces in this copy of the mounts. Otherwise a name
// that is removed on the machine would leave its namespace alive here.
func releaseNamespaces() error {
	points, err := MountsBelow("/run/netns")
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

// MountsBelow lists the mount points at or below a directory that the caller sees, the last mounted first.
func MountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return mountsBelow(string(data), dir), nil
}

// mountsBelow reads the text of a mountinfo file (proc_pid_mountinfo(5): the fifth field is the mount point, with
// blanks written in octal).
func mountsBelow(mountinfo, dir string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points
}

// overlay covers a directory of the machine with itself, in a way that changes stay in the place.
func overlay(dir string) error {
	base := filepath.Join(private, "overlay", strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
	upper, work := filepath.Join(base, "upper"), filepath.Join(base, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make overlay of %s: %w", dir, err)
		}
	}
	return mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work)
}

// writeFiles writes files by their names below a directory.
func writeFiles(dir string, content map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content[name]), 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}

// coverKernelFiles binds files with the given content over files below /proc/sys.
func coverKernelFiles(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); os.IsNotExist(err) {
			continue // this kernel has no such value, so nobody can write it
		}
		source := filepath.Join(private, "kernel", name)
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return fmt.Errorf("cover %s: %w", target, err)
		}
		if err := os.WriteFile(source, []byte(values[name]+"\n"), 0o644); err != nil {
			return fmt.Errorf("cover %s: %w", target, err)
		}
		if err := mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// bind makes a directory visible at another place, which is made if it is missing.
func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}
