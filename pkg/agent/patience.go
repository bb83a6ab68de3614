package agent

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// addPatience is how long an ADD waits while no ADD of this node gets beyond the phase that it is in. Most of an ADD is
	// waiting for others. Where they get on, only slowly, as when all pods of a node start at once, whoever gave up would be
	// replaced by a new sandbox that waits as long, with more work for everybody.
	addPatience = 60 * time.Second
	// addTurn is added for each other ADD of the node. OVN gives many ports their flows at once, and none is installed until the
	// last of them has its flows. Who gives up then makes work for OVN, by taking a port away and asking for another, which the
	// others wait for in their turn: such a node was seen to install nothing any more.
	addTurn = time.Second
	// addLongest ends an ADD in any case. With what it takes to undo it, it is shorter than the patience of the plugin, which is
	// shorter than kubelet's: so that the error that reaches the pod's Events says what was waited for. (kubelet gives a
	// sandbox twice its --runtime-request-timeout, which is 4 minutes by default.)
	addLongest = 200 * time.Second
)

// progress knows when an ADD last got beyond each phase, and how many there are.
type progress struct {
	mu   sync.Mutex
	last map[string]time.Time
	adds int
}

func newProgress() *progress { return &progress{last: map[string]time.Time{}} }

// passed records that an ADD has got beyond a phase.
func (p *progress) passed(phase string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[phase] = now
}

// movedSince reports whether an ADD has got beyond a phase since then.
func (p *progress) movedSince(phase string, then time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[phase].After(then)
}

// until is when an ADD at a stage gives up: its patience counts from when it got there, or another one beyond its phase, whatever
// came later.
func (p *progress) until(at stage) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := at.since
	if last := p.last[at.phase]; last.After(from) {
		from = last
	}
	return from.Add(addPatience + time.Duration(p.adds-1)*addTurn)
}

// count takes ADDs in, or out.
func (p *progress) count(adds int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adds += adds
}

// tookTooLongError is the cause that ends an ADD which has waited in vain.
type tookTooLongError struct{ after time.Duration }

func (e *tookTooLongError) Error() string {
	return fmt.Sprintf("gave up after %s", e.after.Round(time.Second))
}

// patience bounds an ADD. now is where it is; it is called from another goroutine.
func (p *progress) patience(ctx context.Context, now func() stage) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.count(1)
	go func() { // ends with ctx
		defer p.count(-1)
		began := time.Now()
		longest := began.Add(addLongest)
		for {
			until := p.until(now())
			if until.After(longest) {
				until = longest
			}
			rest := time.Until(until)
			if rest <= 0 {
				cancel(&tookTooLongError{time.Since(began)})
				return
			}
			select {
			case <-time.After(rest):
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
