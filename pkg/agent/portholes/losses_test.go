package portholes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestMendsThatFailArePausedAfter: where something goes all the time, what is mended is looked at each second; while that fails,
// less and less often; and as often as before once it has succeeded.
func TestMendsThatFailArePausedAfter(t *testing.T) {
	t.Parallel()
	const span = 5 * time.Minute
	for _, test := range []struct {
		name        string
		fails       func(n int) bool
		least, most int
	}{
		{"all succeed", func(int) bool { return false }, 290, 300},
		// After 0, 1, 3, 7, 15, 31, 63, 123, 183 and 243 s.
		{"all fail", func(int) bool { return true }, 10, 10},
		// The first five, which take 31 s, and then all succeed.
		{"they succeed again", func(n int) bool { return n <= 5 }, 260, 275},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithTimeout(t.Context(), span)
				defer end()
				lost := make(chan struct{})
				close(lost)
				mended := 0
				mendLosses(ctx, lost, func() bool { return true }, func(ctx context.Context) (bool, error) {
					if ctx.Err() != nil {
						return false, ctx.Err()
					}
					mended++
					if test.fails(mended) {
						return true, errors.New("the bridge is not there")
					}
					return true, nil
				})
				if mended < test.least || mended > test.most {
					t.Errorf("mended %d times, want from %d to %d", mended, test.least, test.most)
				}
			})
		})
	}
}
