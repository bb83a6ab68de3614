//go:build integration

package porthole

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheFirstThreadStaysWhereItIs: whoever makes network namespaces has a thread of its own for each, and never the process's
// first one, although that is free. The control is a function beside it that runs there.
func TestTheFirstThreadStaysWhereItIs(t *testing.T) {
	was, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	k := keeper(t)
	isFirst := func() bool { return unix.Gettid() == unix.Getpid() }
	// With one processor, a goroutine whose creator then waits runs on the creator's thread: no other thread takes it.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	errNotFirst := errors.New("nothing ran on the first thread")
	err = errNotFirst
	// Which thread runs what, Go decides: on a busy machine hundreds of rounds may pass.
	for range 2000 {
		asked, hold := make(chan error), make(chan struct{})
		var round sync.WaitGroup
		// Each holds a thread until one has the first.
		for range 32 {
			round.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				if !isFirst() {
					asked <- errNotFirst
					<-hold
					return
				}
				runtime.UnlockOSThread()
				defer runtime.LockOSThread()
				beside := make(chan bool)
				go func() { beside <- isFirst() }()
				if !<-beside {
					asked <- errNotFirst
					return
				}
				r, err := k.Review()
				if err == nil {
					r.Close()
				}
				asked <- err
			})
			if err = <-asked; !errors.Is(err, errNotFirst) {
				break
			}
		}
		close(hold)
		// Else the next round's threads come beside this one's, thousands of them where the machine is busy, and Go ends the process.
		round.Wait()
		if !errors.Is(err, errNotFirst) {
			break
		}
	}
	must(t, err)
	if is, err := os.Readlink("/proc/self/ns/net"); err != nil || is != was {
		t.Errorf("the first thread is in %s, and was in %s: %v", is, was, err)
	}
}
