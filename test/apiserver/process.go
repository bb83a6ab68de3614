package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// command is a program with what it is given.
type command struct {
	path string
	args []string
	// log is the file that takes its output.
	log string
}

// process is a child that has been started.
type process struct {
	command
	cancel context.CancelFunc
	// done is closed once it has ended; err is set before.
	done chan struct{}
	err  error
}

// start runs c until ctx ends or kill is called. The goroutine that waits for the child also started it and keeps its
// thread: the kernel sends a child's death signal when the thread that made it ends, not the process.
func start(ctx context.Context, c command) (*process, error) {
	out, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("make log file: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &process{command: c, cancel: cancel, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer cancel()
		defer func() { _ = out.Close() }()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, c.path, c.args...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(c.path), err)
	}
	return p, nil
}

// kill ends the process and waits until it has gone.
func (p *process) kill() {
	p.cancel()
	<-p.done
}

// ended says why a process that should still run does not.
func (p *process) ended() error {
	return fmt.Errorf("run %s: it ended early: %w\n%s", filepath.Base(p.path), p.err, p.logTail())
}

// logTail is the end of what the process printed.
func (p *process) logTail() []byte {
	const lines = 20
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	text = bytes.TrimRight(text, "\n")
	from := len(text)
	for range lines {
		if from = bytes.LastIndexByte(text[:from], '\n'); from < 0 {
			return text
		}
	}
	return text[from+1:]
}
