package check

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/inspect/drift"
)

// looks answers each look with the differences of one word, a letter each; the last one again and again.
func looks(script string) (look func(context.Context) (Report, error), taken *int) {
	words := strings.Split(script, " ")
	taken = new(int)
	return func(context.Context) (Report, error) {
		word := words[min(*taken, len(words)-1)]
		*taken++
		var r Report
		for _, letter := range word {
			if letter != '-' {
				r.Differences = append(r.Differences, drift.Difference{Object: string(letter)})
			}
		}
		return r, nil
	}, taken
}

func TestWhatIsOnItsWayIsNotReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script, want string
		looks              int
		took               time.Duration
	}{
		{"no difference ends it at once", "-", "", 1, 0},
		{"what goes is not reported", "ab b -", "", 3, 2 * pause},
		{"what comes later is not reported", "a ab b", "", 3, 2 * pause},
		{"what changes each time is not reported", "a b c", "", 2, pause},
		{"what stays is, after all the time", "a ab abc a", "a", 11, 10 * pause},
		{"what went and came back is not", "ab a ab", "a", 11, 10 * pause},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				look, taken := looks(test.script)
				start := time.Now()
				report, err := settle(t.Context(), 10*pause, look)
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				for _, d := range report.Differences {
					got += d.Object
				}
				if got != test.want || *taken != test.looks || time.Since(start) != test.took {
					t.Errorf("got %q after %d looks and %v, want %q after %d looks and %v",
						got, *taken, time.Since(start), test.want, test.looks, test.took)
				}
			})
		})
	}
}

func TestSettleEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		look, _ := looks("a")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := settle(ctx, time.Hour, look); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with its context it ends with %v", err)
		}
		// The last look is at the very end of the time that it has, and not left out.
		look, taken := looks("a")
		start := time.Now()
		report, err := settle(t.Context(), pause+pause/2, look)
		if err != nil || time.Since(start) != pause+pause/2 || *taken != 3 {
			t.Errorf("it took %v and %d looks (%v)", time.Since(start), *taken, err)
		}
		if diff := cmp.Diff([]drift.Difference{{Object: "a"}}, report.Differences); diff != "" {
			t.Error(diff)
		}
		// A look that fails says nothing about what is well.
		lost := errors.New("lost")
		_, err = settle(t.Context(), time.Hour, func(context.Context) (Report, error) { return Report{}, lost })
		if !errors.Is(err, lost) {
			t.Errorf("a look that failed gives %v", err)
		}
	})
}
