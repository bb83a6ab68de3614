package place

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/vishvananda/netns"
)

// Launched is the first process of a place as its parent sees it.
type Launched struct {
	PID int
	// Ended is closed when the process has ended. While the place lives, that does not happen.
	Ended <-chan struct{}
}

// Launch starts the first process of a place, program (the atoll-sandbox executable), in the named network
// namespace. It writes the spec beside the control socket. The process outlives its parent.
func Launch(program, namespace string, spec Spec) (Launched, error) {
	specFile := filepath.Join(filepath.Dir(spec.Control), "place.json")
	if err := spec.Write(specFile); err != nil {
		return Launched{}, err
	}
	log, err := os.OpenFile(filepath.Join(spec.Logs, spec.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Launched{}, fmt.Errorf("open log of place %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(program, "init", specFile)
	cmd.Env = append([]string{IDVariable + "=" + spec.ID}, spec.Environment...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	if err := InNamespace(namespace, cmd.Start); err != nil {
		return Launched{}, fmt.Errorf("start place %s: %w", spec.Name, err)
	}
	ended := make(chan struct{})
	go func() { // ends with the place, or with this process
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return Launched{PID: cmd.Process.Pid, Ended: ended}, nil
}

// InNamespace calls f on a thread that is in the named network namespace. What f makes there, a process or a
// socket, stays there; the thread comes back.
func InNamespace(name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		defer home.Close()
		there, err := netns.GetFromName(name)
		if err != nil {
			done <- fmt.Errorf("open network namespace %s: %w", name, err)
			return
		}
		defer there.Close()
		if err := netns.Set(there); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", name, err)
			return
		}
		err = f()
		// A thread that cannot come back stays locked, and ends with this goroutine.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// Become replaces the calling process by a program that is in the named network namespace and, for the rest,
// where the caller is. It returns only on failure.
func Become(namespace, program string, argv, environment []string) error {
	runtime.LockOSThread() // the new program goes on in the namespaces of this thread
	there, err := netns.GetFromName(namespace)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", namespace, err)
	}
	if err := netns.Set(there); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	if err := syscall.Exec(program, argv, environment); err != nil {
		return fmt.Errorf("become %s: %w", program, err)
	}
	return nil
}
