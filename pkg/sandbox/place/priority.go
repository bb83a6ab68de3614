package place

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"
)

// prioritize gives a program that has just been started a nice value, and its session, which Linux may schedule as a group
// of its own, the same (sched(7), the autogroup feature). A machine that does not allow it is no reason not to run.
func prioritize(name string, pid, nice int) {
	if nice == 0 {
		return
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, pid, nice); err != nil {
		slog.Warn("daemon keeps its priority", "daemon", name, "err", err)
		return
	}
	group := fmt.Sprintf("/proc/%d/autogroup", pid)
	if _, err := os.Stat(group); err != nil {
		return // this kernel has none
	}
	if err := os.WriteFile(group, fmt.Append(nil, nice), 0); err != nil {
		slog.Warn("daemon's session keeps its priority", "daemon", name, "err", err)
	}
}
