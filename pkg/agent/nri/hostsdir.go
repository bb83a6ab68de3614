package nri

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxHosts is the size in bytes up to which a hosts file is taken, and a container may make it grow.
const maxHosts = 256 << 10

// labelAttribute is the extended attribute of a file's SELinux label.
const labelAttribute = "security.selinux"

// HostsDir holds a hosts file for each pod, of which kubelet knows nothing: it writes its own file anew whenever it
// makes a container, while others of the pod run with it.
//
// Containers may write to their hosts file. So each lies in a tmpfs of its own, which is full before it harms the node
// or another pod; what is written there counts as memory of the container that wrote it.
type HostsDir struct {
	path string
	// mu is held over a few system calls on memory, so that a file is not removed while it is written.
	mu sync.Mutex
}

// OpenHostsDir makes the directory. The container runtime must see what is mounted there: an error says so if nobody
// else can.
func OpenHostsDir(path string) (*HostsDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of hosts files: %w", err)
	}
	shared, err := isShared(path)
	if err != nil {
		return nil, err
	}
	if !shared {
		return nil, fmt.Errorf("mounts below %s stay in this mount namespace: the container runtime would not see them", path)
	}
	return &HostsDir{path: path}, nil
}

// Write gives a pod a file of this name and content, with the SELinux label of another file, and returns where it is. A file
// that the pod has already is changed in place, since its containers hold on to it.
func (d *HostsDir) Write(podUID, file, content, labelOf string) (string, error) {
	if !isName(podUID) {
		return "", fmt.Errorf("write %s: %q is not the UID of a pod", file, podUID)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := filepath.Join(d.path, podUID)
	if err := d.mount(dir); err != nil {
		return "", err
	}
	name := filepath.Join(dir, file)
	if err := rewrite(name, content); err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	if err := copyLabel(labelOf, name); err != nil {
		return "", err
	}
	return name, nil
}

// mount gives a pod its tmpfs, unless it has one.
func (d *HostsDir) mount(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	mounted, err := isMountPoint(dir)
	if err != nil || mounted {
		return err
	}
	options := fmt.Sprintf("mode=0755,size=%d,nr_inodes=4", maxHosts)
	if err := unix.Mount("atoll-hosts", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	return nil
}

// Sweep removes the files of pods that are not known any more, and counts them. Containers that still run keep theirs.
func (d *HostsDir) Sweep(known func(podUID string) bool) (removed int, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0, fmt.Errorf("list hosts files: %w", err)
	}
	var failed []error
	for _, entry := range entries {
		if known(entry.Name()) {
			continue
		}
		err := d.remove(filepath.Join(d.path, entry.Name()))
		if err == nil {
			removed++
		}
		failed = append(failed, err)
	}
	return removed, errors.Join(failed...)
}

func (d *HostsDir) remove(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for mounted := true; mounted; {
		var err error
		if mounted, err = isMountPoint(dir); err != nil {
			return err
		}
		if mounted {
			if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("unmount %s: %w", dir, err)
			}
		}
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("remove directory of a hosts file: %w", err)
	}
	return nil
}

// readFile reads a file that a container may have written to: kubelet's own is in its hands too.
func readFile(name string) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("open a container's file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("look at a container's file: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxHosts+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read a container's file: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("read %s: it is not a file", name)
	case len(content) > maxHosts:
		return "", fmt.Errorf("read %s: it is longer than %d bytes", name, maxHosts)
	}
	return string(content), nil
}

// rewrite changes a file's content and keeps the file. It is not touched when it has that content.
func rewrite(name, content string) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	err = func() error {
		present, err := io.ReadAll(io.LimitReader(file, maxHosts+1))
		if err != nil || string(present) == content {
			return err
		}
		// First the bytes and then the length: who reads meanwhile finds no empty file.
		if _, err := file.WriteAt([]byte(content), 0); err != nil {
			return err
		}
		return file.Truncate(int64(len(content)))
	}()
	return errors.Join(err, file.Close())
}

// copyLabel gives a file the SELinux label of another, which the runtime has set for the pod. Without SELinux there is
// none.
func copyLabel(from, to string) error {
	label := make([]byte, 4<<10)
	n, err := unix.Lgetxattr(from, labelAttribute, label)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err == nil {
		err = unix.Lsetxattr(to, labelAttribute, label[:n], 0)
	}
	if err != nil {
		return fmt.Errorf("copy the SELinux label of %s: %w", from, err)
	}
	return nil
}

// isMountPoint reports whether something is mounted on a directory.
func isMountPoint(dir string) (bool, error) {
	var at unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &at); err != nil {
		return false, fmt.Errorf("look at %s: %w", dir, err)
	}
	return at.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// isShared reports whether mounts below a path appear in other mount namespaces too.
func isShared(path string) (bool, error) {
	var at unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &at); err != nil {
		return false, fmt.Errorf("look at %s: %w", path, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("read mounts: %w", err)
	}
	return sharedMount(string(mounts), at.Mnt_id), nil
}

// sharedMount looks a mount up in the text of a mountinfo file (proc_pid_mountinfo(5): the first field is its ID; from
// the seventh up to a dash come optional ones, of which shared:N says that it has peers).
func sharedMount(mountinfo string, id uint64) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 7 || fields[0] != fmt.Sprint(id) {
			continue
		}
		for _, field := range fields[6:] {
			if field == "-" {
				return false
			}
			if strings.HasPrefix(field, "shared:") {
				return true
			}
		}
	}
	return false
}

// RemoveHostsDir removes a directory that OpenHostsDir made, with the files of all pods. No plugin may run. That it is not there
// is no error.
func RemoveHostsDir(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d := &HostsDir{path: path}
	if _, err := d.Sweep(func(string) bool { return false }); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove directory of hosts files: %w", err)
	}
	return nil
}
