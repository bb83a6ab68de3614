package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Child is a program that runs beside us, and ends when we do, however we end.
type Child struct {
	pid  int
	name string
	log  string
	stop func()
	// Done is closed when it has ended.
	Done chan struct{}
	err  error
}

// StartChild runs a program until stop, or until ctx ends. It is first asked to end, then made to.
func StartChild(ctx context.Context, log, path string, args ...string) (*Child, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	c := &Child{name: filepath.Base(path), log: log, stop: stop, Done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the death signal when the thread that made the child ends: this one stays until then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.Done)
		defer func() { _ = out.Close() }()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	c.pid = cmd.Process.Pid
	return c, nil
}

// End stops the program and returns when it has ended.
func (c *Child) End() {
	c.stop()
	<-c.Done
}

// Kill ends the program with no chance to say goodbye, and returns when it has ended.
func (c *Child) Kill() error {
	if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	<-c.Done
	return nil
}

// Ended says why a program ended that should still run.
func (c *Child) Ended() error {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Errorf("%s ended: %w", c.name, c.err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Errorf("%s ended: %w\n%s", c.name, c.err, bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}

// ResidentMB is how much memory the program holds, in units of 10^6 bytes. (proc_pid_status(5), VmRSS.)
func (c *Child) ResidentMB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
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
func (c *Child) CPU() (time.Duration, error) { return CPUOf(c.pid) }

// CPUOf is how much processor time a process has used, in steps of 10 ms.
func CPUOf(pid int) (time.Duration, error) {
	_, fields, err := processStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseTicks(fields, utime, stime)
}
