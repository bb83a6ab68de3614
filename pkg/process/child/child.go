// Package child runs programs that end with this process, however it ends: a daemon that stayed behind would hold its files and sockets
// against the next.
//
// What must stay true: a child outlives the goroutine that started it, and its thread; and it does not outlive the process.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Child is a program that was started.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	// err is set before done is closed.
	err error
}

// Start starts a command, to whose SysProcAttr it adds. The kernel kills the child when the thread ends that started it
// (PR_SET_PDEATHSIG(2const)): a goroutine keeps a thread for it, and ends with the child. So the child begins where the process
// is, not in namespaces of the caller's thread.
func Start(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// PID is the child's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Path is the child's program.
func (c *Child) Path() string { return c.cmd.Path }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits until the child has ended. Its error is that of exec.Cmd.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}

// Ended waits until the child has ended, and says how: it is never nil.
func (c *Child) Ended() error {
	if err := c.Wait(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

// Signal sends a signal to a child that may have ended.
func (c *Child) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

// Kill ends the child with no chance to say goodbye, and returns when it has ended.
func (c *Child) Kill() {
	c.Signal(syscall.SIGKILL)
	<-c.done
}

// End asks the child to end, and kills it when it has not done so within patience.
func (c *Child) End(patience time.Duration) {
	c.Signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.Kill()
	}
}
