package central

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/process/rlimit"
)

// child is a daemon that ends with this process, however this ends: a server that stayed behind would hold the database's lock against the next.
type child struct {
	process *os.Process
	// done is closed when it has ended, after err is set.
	done chan struct{}
	err  error
}

// startChild starts a daemon; its goroutine ends with it.
func startChild(path string, environment []string, args ...string) (*child, error) {
	// A database's server takes one open file for each client, and it needs some for raft and for its files.
	rlimit.RaiseFiles()
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that started the daemon, so that this thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), environment...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Start()
		if err == nil {
			c.process = cmd.Process
		}
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		if c.err == nil {
			c.err = errors.New("it ended by itself")
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return c, nil
}

// end asks the daemon to end, and makes it when it does not within patience.
func (c *child) end(patience time.Duration) {
	_ = c.process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.process.Kill()
		<-c.done
	}
}
