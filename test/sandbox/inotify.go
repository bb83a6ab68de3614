package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Measured with Kubernetes 1.36: what the control plane and a node use of a limit that the kernel has per user,
// and what is left to programs that start later.
const (
	inotifyCentral = 11
	inotifyNode    = 8
	inotifySpare   = 16
)

// checkInotify tells before anything starts what would otherwise show as "too many open files" in a kubelet.
func (o Options) checkInotify() error {
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return fmt.Errorf("read inotify limit: %w", err)
	}
	// A sandbox of the same name runs already, or is removed first.
	used, err := inotifyInstances(func(pid int) bool { return !isProcessOf(o.Name, pid) })
	if err != nil {
		return err
	}
	return fitsInotify(o.Nodes, used, string(limit))
}

// fitsInotify tells whether so many nodes can start while so many instances are in use.
func fitsInotify(nodes, used int, limit string) error {
	allowed, err := strconv.Atoi(strings.TrimSpace(limit))
	if err != nil {
		return fmt.Errorf("read inotify limit: %w", err)
	}
	own := inotifyCentral + nodes*inotifyNode
	if needed := used + own + inotifySpare; needed > allowed {
		return fmt.Errorf("start %d nodes: they need %d inotify instances, others of this user have %d, and this machine allows %d; "+
			"raise it (sysctl fs.inotify.max_user_instances=%d), ask for fewer nodes, or end what has them (another sandbox: "+
			"atoll-sandbox down --name)",
			nodes, own, used, allowed, needed)
	}
	return nil
}

// inotifyInstances counts the inotify instances that processes of this process' user hold, of those processes that count.
func inotifyInstances(counts func(pid int) bool) (int, error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	held := 0
	for _, dir := range processes {
		info, err := os.Stat(dir)
		if err != nil {
			continue // ended
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		owner, ok := info.Sys().(*syscall.Stat_t)
		if err != nil || !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		n, err := inotifyOf(dir)
		if err != nil {
			return 0, err
		}
		if n > 0 && counts(pid) {
			held += n
		}
	}
	return held, nil
}

// inotifyOf counts the inotify instances that a process holds.
func inotifyOf(process string) (int, error) {
	descriptors, err := os.ReadDir(filepath.Join(process, "fd"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil // ended
	}
	if err != nil {
		return 0, fmt.Errorf("count inotify instances: %w", err)
	}
	n := 0
	for _, d := range descriptors {
		if target, err := os.Readlink(filepath.Join(process, "fd", d.Name())); err == nil && target == "anon_inode:inotify" {
			n++
		}
	}
	return n, nil
}
