package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPath is outside the state directory: it guards the sandbox's name on the machine, whatever the directory.
func lockPath(name string) string { return "/run/atoll-sandbox-" + name + ".lock" }

// lockPatience is how long a lock may be held by nobody: a process that up had just begun when it was killed has the lock until it
// is the program that it is to become.
const lockPatience = 3 * time.Second

// lock keeps a second up or down away until the file is closed. The kernel drops it when the process ends.
func lock(ctx context.Context, name string) (*os.File, error) {
	for until := time.Now().Add(lockPatience); ; {
		file, err := os.OpenFile(lockPath(name), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(until) {
				select {
				case <-time.After(50 * time.Millisecond):
					continue
				case <-ctx.Done():
					return nil, fmt.Errorf("lock sandbox %s: %w", name, ctx.Err())
				}
			}
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, fmt.Errorf("lock sandbox %s: another up or down of it is at work", name)
			}
			return nil, fmt.Errorf("lock sandbox %s: %w", name, err)
		}
		if current, err := os.Stat(lockPath(name)); err == nil {
			if own, err := file.Stat(); err == nil && os.SameFile(own, current) {
				return file, nil
			}
		}
		file.Close() // a down removed the file between our opening and locking it
	}
}
