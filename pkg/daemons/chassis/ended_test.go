package chassis

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestAwaitEnd: the end of a daemon is waited for as long as it has its pidfile's lock, and no longer; a daemon that comes after
// it is another.
func TestAwaitEnd(t *testing.T) {
	dirs := Directories{Switch: t.TempDir(), OVN: t.TempDir()}
	if err := AwaitEnd(t.Context(), dirs, PartSwitch); err != nil {
		t.Fatalf("there is none: %v", err)
	}
	path := dirs.pidfile(switchDaemon)
	first := lockedFile(t, path)
	synctest.Test(t, func(t *testing.T) {
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := AwaitEnd(short, dirs, PartSwitch); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it runs: %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- AwaitEnd(t.Context(), dirs, PartSwitch) }() // ends with the first daemon
		synctest.Wait()
		// The next one puts its pidfile in place before the first one's lock is looked at again.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		next := lockedFile(t, path)
		defer next.Close()
		select {
		case err := <-ended:
			t.Fatalf("the first one runs: %v", err)
		default:
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := AwaitEnd(t.Context(), dirs, "northd"); err == nil {
		t.Error("a part that no node has")
	}
}

// lockedFile is a file with a lock that belongs to it, and not to the process: a process does not see its own locks.
func lockedFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	return f
}
