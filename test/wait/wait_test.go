package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

// quiet gives all of the time.
var quiet = machine{share: func() float64 { return 1 }}

// busy gives a part of a processor until a time has passed, and all of one afterwards.
func busy(share float64, until time.Duration) machine {
	began := time.Now()
	return machine{share: func() float64 {
		if time.Since(began) < until {
			return share
		}
		return 1
	}}
}

// still is a machine that stands still for long after each beat, until a time has passed.
func still(long, until time.Duration) machine {
	began := time.Now()
	return machine{share: func() float64 {
		if time.Since(began) < until {
			<-time.After(long)
		}
		return 1
	}}
}

// after returns a check that holds from a time on.
func after(d time.Duration) func(context.Context) error {
	began := time.Now()
	return func(context.Context) error {
		if time.Since(began) < d {
			return errNotYet
		}
		return nil
	}
}

func TestEventually(t *testing.T) {
	for _, test := range []struct {
		name    string
		on      func() machine
		comes   time.Duration
		want    error
		elapsed time.Duration
	}{
		{"at once", func() machine { return quiet }, 0, nil, 0},
		{"in time", func() machine { return quiet }, 9 * time.Second, nil, 9 * time.Second},
		{"too late", func() machine { return quiet }, time.Hour, errNotYet, 10 * time.Second},
		{
			"late, on a machine that stood still", func() machine { return still(time.Second, 40*time.Second) }, 45 * time.Second, nil,
			45 * time.Second,
		},
		{"late, on a machine that was shared by ten", func() machine { return busy(0.1, time.Hour) }, 90 * time.Second, nil, 90 * time.Second},
		{"never, on a machine that gives nothing", func() machine { return busy(0, time.Hour) }, time.Hour, errNotYet, 100 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := test.on().eventually(t.Context(), 10*time.Second, after(test.comes))
				if !errors.Is(err, test.want) || test.want != nil && !errors.Is(err, errPatience) {
					t.Errorf("%v, want %v", err, test.want)
				}
				if took := time.Since(began); took < test.elapsed || took > test.elapsed+time.Second {
					t.Errorf("it took %s, want %s", took, test.elapsed)
				}
			})
		})
	}
}

// TestALookIsCutOff: a look that hangs ends with the patience, and the error of the look before it is told.
func TestALookIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := quiet.eventually(t.Context(), 10*time.Second, func(ctx context.Context) error {
			if looks++; looks == 1 {
				return errNotYet
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errNotYet) || looks != 2 {
			t.Errorf("%d looks: %v", looks, err)
		}
	})
}

// TestLooksBackOff: a look that is dear is repeated less often, and so is one in a long wait.
func TestLooksBackOff(t *testing.T) {
	for _, test := range []struct {
		cost, waitsFor time.Duration
		from, to       int
	}{
		{cost: 0, waitsFor: 10 * time.Second, from: 30, to: 70},
		{cost: 200 * time.Millisecond, waitsFor: 10 * time.Second, from: 14, to: 25},
	} {
		synctest.Test(t, func(t *testing.T) {
			looks, comes := 0, after(test.waitsFor)
			err := quiet.eventually(t.Context(), time.Minute, func(ctx context.Context) error {
				looks++
				<-time.After(test.cost)
				return comes(ctx)
			})
			if err != nil || looks < test.from || looks > test.to {
				t.Errorf("looks of %s: %d in %s, want %d to %d: %v", test.cost, looks, test.waitsFor, test.from, test.to, err)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		name string
		on   func() machine
		// takes is how long each measurement takes.
		takes []time.Duration
		says  string
	}{
		{"kept", func() machine { return quiet }, []time.Duration{900 * time.Millisecond}, ""},
		{"kept on a busy machine", func() machine { return busy(0.1, time.Hour) }, []time.Duration{900 * time.Millisecond}, ""},
		{"broken", func() machine { return quiet }, []time.Duration{1200 * time.Millisecond}, "promised in 1s"},
		{"broken by what never comes", func() machine { return quiet }, []time.Duration{time.Hour}, "not yet"},
		{"measured again", func() machine { return busy(0.1, 4*time.Second) }, []time.Duration{3 * time.Second, 900 * time.Millisecond}, ""},
		{
			"measured again after it stood still", func() machine { return still(2*time.Second, 3*time.Second) },
			[]time.Duration{2 * time.Second, 900 * time.Millisecond},
			"",
		},
		{
			"broken when it is measured again", func() machine { return busy(0.1, 4*time.Second) },
			[]time.Duration{3 * time.Second, 2 * time.Second},
			"promised in 1s",
		},
		{
			"not known", func() machine { return busy(0.1, time.Hour) },
			[]time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second},
			"not known",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				acts, said := 0, 0
				var comes func(context.Context) error
				act := func() {
					if acts == len(test.takes) {
						t.Fatal("it acts once too often")
					}
					comes = after(test.takes[acts])
					acts++
				}
				logf := func(string, ...any) { said++ }
				err := test.on().within(t.Context(), time.Second, logf, act, func(ctx context.Context) error { return comes(ctx) })
				if (err == nil) != (test.says == "") || !strings.Contains(fmt.Sprint(err), test.says) {
					t.Errorf("%v, want %q", err, test.says)
				}
				repeated := acts - 1
				if test.says == "not known" {
					repeated = acts
				}
				if said != repeated {
					t.Errorf("it acted %d times, and said so %d times", acts, said)
				}
			})
		})
	}
}

func TestNever(t *testing.T) {
	for _, test := range []struct {
		name string
		// attack and marker are how long each is on its way; 0 does not arrive.
		attack, marker time.Duration
		says           string
	}{
		{"held", 0, 5 * time.Second, ""},
		{"arrives before the marker", 4 * time.Second, 5 * time.Second, "the attack arrived: the text"},
		{"arrives, and the marker does not", time.Second, 0, "the attack arrived: the text"},
		{"not known", 0, 0, "not known"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent time.Time
				err := quiet.never(t.Context(), Attack{
					Send: func() {
						if sent.IsZero() {
							sent = time.Now()
						}
					},
					Marker: func(ctx context.Context) error {
						if test.marker == 0 {
							<-ctx.Done()
							return errNotYet
						}
						<-time.After(test.marker)
						return nil
					},
					Came: func() string {
						if test.attack > 0 && time.Since(sent) > test.attack {
							return "the text"
						}
						return ""
					},
				})
				if (err == nil) != (test.says == "") || !strings.Contains(fmt.Sprint(err), test.says) {
					t.Errorf("%v, want %q", err, test.says)
				}
			})
		})
	}
}

// TestShare: this machine has something to give.
func TestShare(t *testing.T) {
	if share := processorShare(); share <= 0 || share > 1 {
		t.Errorf("a share of %v", share)
	}
}
