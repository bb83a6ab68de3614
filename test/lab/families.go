package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/test/sandbox"
)

// kernelThreads is the parent of the kernel's own threads.
const kernelThreads = 2

// Below returns the processes that are started below another one, in whatever namespaces, and whose program has one of the
// names (comm, proc_pid_comm(5): its first 15 characters).
func Below(first int, names ...string) (pids []int, err error) {
	directories, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range directories {
		text, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || !slices.Contains(names, strings.TrimSpace(string(text))) {
			continue // another program, or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		for above := pid; err == nil && above > 1; above, err = parentOf(above) {
			if above == first {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}

// Families are the processes whose descendants work for a sandbox, for ReadUsage: the first process of each of its places,
// and the kernel's threads, which work for those who are measured; what others have them do is not much.
func Families(ctx context.Context, box *sandbox.Sandbox) ([]int, error) {
	var out []int
	for _, place := range box.Places() {
		first, err := box.FirstProcess(ctx, place)
		if err != nil {
			return nil, err
		}
		out = append(out, first)
	}
	return append(out, kernelThreads), nil
}

func parentOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("find parent of a daemon: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if number, found := strings.CutPrefix(line, "PPid:"); found {
			return strconv.Atoi(strings.TrimSpace(number))
		}
	}
	return 0, fmt.Errorf("find parent of process %d: no PPid", pid)
}
