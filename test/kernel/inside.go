package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The terminals besides the console, whose lines lead out of the kernel.
const (
	outputTerminal  = "/dev/tty1"
	outcomeTerminal = "/dev/tty2"
)

// inside is the first process of the kernel. It ends by switching the kernel off.
func inside(file string) {
	var o outcome
	status, err := runInside(file)
	if err != nil {
		o.Problem = err.Error()
	}
	o.Status = status
	if err := tell(o); err != nil {
		fmt.Fprintln(os.Stderr, "tell outcome:", err)
	}
	// A first process that ends, as this would if it failed, takes the kernel with it.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func runInside(file string) (int, error) {
	wanted, err := readJob(file)
	if err != nil {
		return 0, err
	}
	if err := makeRoot(); err != nil {
		return 0, err
	}
	if err := bringUpLoopback(); err != nil {
		return 0, err
	}
	out, err := openTerminal(outputTerminal)
	if err != nil {
		return 0, err
	}
	status, err := wanted.run(out)
	return status, errors.Join(err, closeTerminal(out))
}

// run runs the job to its end and returns its exit status, as a shell would.
func (j job) run(out *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("open input: %w", err)
	}
	child, err := os.StartProcess(j.Path, j.Argv, &os.ProcAttr{Dir: j.Dir, Env: j.Env, Files: []*os.File{null, out, out}})
	if err != nil {
		return 0, fmt.Errorf("start job: %w", err)
	}
	for {
		// Orphans become children of the first process; nobody else waits for them.
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wait for job: %w", err)
		}
		if pid != child.Pid {
			continue
		}
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}

func bringUpLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	return nil
}

func tell(o outcome) error {
	out, err := openTerminal(outcomeTerminal)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(out).Encode(o), closeTerminal(out))
}

// openTerminal opens a terminal that passes on every byte as it is.
func openTerminal(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	settings, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err == nil {
		settings.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, settings)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up terminal: %w", err), file.Close())
	}
	return file, nil
}

// closeTerminal returns once all that was written has left the kernel.
func closeTerminal(file *os.File) error {
	const drain = 1 // tcdrain(3), by TCSBRK in ioctl_tty(2)
	if err := unix.IoctlSetInt(int(file.Fd()), unix.TCSBRK, drain); err != nil {
		return errors.Join(fmt.Errorf("drain terminal: %w", err), file.Close())
	}
	return file.Close()
}
