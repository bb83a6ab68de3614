package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// machine is a kernel to boot.
type machine struct {
	// linux is the kernel: with user-mode-linux, a program. memory is in its words: 2G.
	linux, memory string
	// dir is a directory of its own.
	dir string
}

// run boots the kernel, runs a program in it and shows what it prints, and returns the program's exit status.
func (m machine) run(ctx context.Context, argv []string) (int, error) {
	wanted, err := thisJob(argv)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(m.dir, "job.json")
	if err := wanted.write(file); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find own program: %w", err)
	}
	var told bytes.Buffer
	lines, err := openLines(&console{out: os.Stderr}, os.Stdout, &told)
	if err != nil {
		return 0, err
	}
	var said bytes.Buffer // by the kernel as a program of this machine
	cmd := exec.CommandContext(ctx, self, append([]string{"-keep", m.linux}, m.arguments(self, file)...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, lines.guest
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	// The process that a parent-death signal follows is the thread that started it.
	runtime.LockOSThread()
	err = cmd.Start()
	lines.started()
	if err != nil {
		return 0, errors.Join(fmt.Errorf("boot %s: %w", m.linux, err), lines.drain())
	}
	// How the kernel was switched off does not matter; what it told does.
	_ = cmd.Wait()
	if err := lines.drain(); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("run in the kernel: %w", context.Cause(ctx))
	}
	status, err := parseOutcome(told.String())
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, said.Bytes())
	}
	return status, nil
}

// arguments are the kernel's command line (kernel-parameters in the kernel's documentation, and linux --help). What
// follows the two dashes goes to its first process.
func (m machine) arguments(init, file string) []string {
	return []string{
		"mem=" + m.memory, "uml_dir=" + m.dir, "umid=machine",
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=" + init,
		// A kernel that has gone wrong has nothing more to say about tests.
		"quiet", "oops=panic",
		"con0=null,fd:3", "con1=null,fd:4", "con2=null,fd:5", "con=null", "ssl=null",
		"--", "-inside=" + file,
	}
}

// terminals is how many of a kernel's terminals lead out of it: the console and those of inside.
const terminals = 3

// keepKernel runs a kernel to its end, for the machine that started this process. A kernel cannot be the first process of
// a namespace itself: one that panics ends by signals to itself that such a process does not get.
func keepKernel(argv []string) error {
	// Nor does one that panics leave its memory in the working directory.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for i := range terminals {
		const first = 3 // after input, output and errors
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(first+i), "terminal"))
	}
	return cmd.Run()
}

// lines are the wires by which a kernel's terminals reach this process.
type lines struct {
	guest   []*os.File
	copying sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// openLines connects the kernel's terminals, from the console on, to where each shall be shown.
func openLines(show ...io.Writer) (*lines, error) {
	l := &lines{}
	for _, out := range show {
		// The kernel changes how its end of a line behaves; so it gets none of this process' own.
		read, write, err := os.Pipe()
		if err != nil {
			l.started()
			return nil, errors.Join(fmt.Errorf("make pipe: %w", err), l.drain())
		}
		l.guest = append(l.guest, write)
		l.copying.Go(func() {
			_, err := io.Copy(out, read)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.err = errors.Join(l.err, err, read.Close())
		})
	}
	return l, nil
}

// started closes this process' copies of the kernel's ends.
func (l *lines) started() {
	for _, file := range l.guest {
		_ = file.Close()
	}
}

// drain waits until all that the kernel wrote is shown. The kernel must have ended.
func (l *lines) drain() error {
	l.copying.Wait()
	if l.err != nil {
		return fmt.Errorf("show output: %w", l.err)
	}
	return nil
}
