package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock locks a file, which it makes, so that one program on the machine at a time goes on. It waits while another program has the
// lock. The kernel drops the lock when the process ends. Whoever has the lock may remove the file. When the context ends first,
// the error has its cause.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of lock: %w", err)
	}
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			own, ownErr := file.Stat()
			if current, err := os.Stat(path); err == nil && ownErr == nil && os.SameFile(own, current) {
				return func() { file.Close() }, nil
			}
			err = syscall.EWOULDBLOCK // the file was removed after it was opened
		}
		file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: %w", path, context.Cause(ctx))
		}
	}
}
