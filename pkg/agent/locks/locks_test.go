package locks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New()
		first, err := l.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, free := l.Try("a"); free {
			t.Error("a held key was given away")
		}
		other, free := l.Try("b")
		if !free {
			t.Fatal("another key is not free")
		}
		other()
		// One gives up, one waits its turn.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "a"); err == nil {
			t.Error("a held key was given away")
		}
		got := make(chan func())
		go func() {
			release, err := l.Acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			got <- release
		}()
		synctest.Wait()
		first()
		second := <-got
		second()
		if len(l.held) > 0 {
			t.Errorf("keys are kept: %v", l.held)
		}
	})
}
