package central

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChildrenMayOpenManyFiles: a server has as many open files as this process may have, and not as many as it was started with.
func TestChildrenMayOpenManyFiles(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) }()
	c, err := startChild("/bin/sleep", nil, "600")
	if err != nil {
		t.Fatal(err)
	}
	defer c.End(time.Second)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if limits, is := strings.CutPrefix(line, "Max open files"); is {
			if f := strings.Fields(limits); f[0] != f[1] || f[0] == "256" {
				t.Errorf("soft and hard limit: %v", f)
			}
			return
		}
	}
	t.Errorf("no limit of open files: %s", text)
}
