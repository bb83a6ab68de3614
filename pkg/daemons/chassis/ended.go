package chassis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// AwaitEnd waits until the daemon of a part that runs now has ended. When none runs, it does not wait; for one that is started
// later it does not wait either. An error says that ctx ended first.
//
// The node's database waits so for the switch when all of a node's pod is told to end at once: ovs-vswitchd without its database
// answers nobody, so that its flows could not be saved, and it would not hear that it is to end.
func AwaitEnd(ctx context.Context, dirs Directories, part string) error {
	daemon, err := daemonOf(part)
	if err != nil {
		return err
	}
	// The next daemon makes a pidfile of its own; this one stays the last one's.
	pidfile, err := os.Open(dirs.pidfile(daemon))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open pidfile: %w", err)
	}
	defer pidfile.Close()
	if err := await(ctx, func() error {
		held, err := locked(pidfile)
		if err == nil && held {
			err = fmt.Errorf("%s runs", daemon)
		}
		return err
	}); err != nil {
		return fmt.Errorf("wait for the end of %s: %w", daemon, err)
	}
	return nil
}

// locked reports whether a process has locked the file, as a daemon of Open vSwitch does with its pidfile for as long as it
// lives. (lib/daemon-unix.c.)
func locked(file *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil {
		return false, fmt.Errorf("look at the lock of %s: %w: %w", file.Name(), err, errStop)
	}
	return lock.Type != unix.F_UNLCK, nil
}
