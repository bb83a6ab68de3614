package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// children starts processes and collects every process that ends below a first process: its own children
// and the orphans that fall to it. os/exec cannot be used beside that, since both would wait for the same process.
type children struct {
	environment []string

	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}

func newChildren(environment []string) *children {
	return &children{environment: environment, waiting: map[int]chan syscall.WaitStatus{}}
}

// reap collects ended processes until the context ends.
func (c *children) reap(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for {
		c.collect()
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
	}
}

func (c *children) collect() {
	c.mu.Lock() // also keeps a process that ends at once from being collected before start has registered it
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if exit, ok := c.waiting[pid]; ok {
			delete(c.waiting, pid)
			exit <- status
		}
	}
}

// start runs a program in a session of its own. Its status arrives on the channel when it has ended.
func (c *children) start(argv []string, output *os.File) (int, <-chan syscall.WaitStatus, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, nil, fmt.Errorf("find program: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, fmt.Errorf("open null device: %w", err)
	}
	defer null.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   c.environment,
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", path, err)
	}
	exit := make(chan syscall.WaitStatus, 1)
	c.waiting[pid] = exit
	return pid, exit, nil
}

// describe tells in words how a process ended.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "ended by signal " + status.Signal().String()
	}
	return fmt.Sprintf("ended with status %d", status.ExitStatus())
}
