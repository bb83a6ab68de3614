package lab

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-net/atoll/pkg/sandbox"
)

// kernelThreads is the parent of the kernel's own threads.
const kernelThreads = 2

// Families are the processes whose descendants work for a sandbox, for ReadUsage: the first process of each of its places,
// and the kernel's threads, which work for those who are measured; what others have them do is not much.
func Families(ctx context.Context, box *sandbox.Sandbox) ([]int, error) {
	var out []int
	for _, place := range box.Places() {
		daemons, err := box.Daemons(ctx, place)
		if err != nil {
			return nil, err
		}
		first := 0
		for _, d := range daemons {
			if d.PID == 0 {
				continue
			}
			if first, err = parentOf(d.PID); err != nil {
				return nil, err
			}
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
