package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/process/child"
)

// Child is a program that runs beside us, and ends when we do, however we end.
type Child struct {
	*child.Child
	name string
	log  string
}

// goodbye is how long a program may take to end after it was asked to.
const goodbye = 10 * time.Second

// StartChild runs a program until End, or until ctx ends. It is first asked to end, then made to.
func StartChild(ctx context.Context, log, path string, args ...string) (*Child, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = goodbye
	started, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &Child{started, filepath.Base(path), log}, nil
}

// End stops the program and returns when it has ended.
func (c *Child) End() { c.Child.End(goodbye) }

// Ended says why a program ended that should still run.
func (c *Child) Ended() error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Errorf("%s ended: %w", c.name, c.Child.Ended())
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Errorf("%s ended: %w\n%s", c.name, c.Child.Ended(), bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}

// ResidentMB is how much memory the program holds, in units of 10^6 bytes. (proc_pid_status(5), VmRSS.)
func (c *Child) ResidentMB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		return 0, fmt.Errorf("read memory of %s: %w", c.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				return 0, fmt.Errorf("read memory of %s: %w", c.name, err)
			}
			return kib * 1024 / 1e6, nil
		}
	}
	return 0, fmt.Errorf("read memory of %s: no VmRSS", c.name)
}

// CPU is how much processor time the program has used.
func (c *Child) CPU() (time.Duration, error) { return CPUOf(c.PID()) }

// CPUOf is how much processor time a process has used, in steps of 10 ms.
func CPUOf(pid int) (time.Duration, error) {
	_, fields, err := processStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseTicks(fields, utime, stime)
}
