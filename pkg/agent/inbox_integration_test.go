//go:build integration

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/test/wait"
)

// sendAgain is when a marker that has not arrived is sent again. It decides nothing.
const sendAgain = 300 * time.Millisecond

// inbox keeps what has come, so that a marker that is waited for does not hide what came before it.
type inbox struct {
	// next returns what comes next, and false if nothing comes in that time.
	next func(within time.Duration) (string, bool)
	came []string
}

// inboxOf keeps what comes by a channel.
func inboxOf(got <-chan string) *inbox {
	return &inbox{next: func(within time.Duration) (string, bool) {
		select {
		case text := <-got:
			return text, true
		default:
		}
		if within == 0 {
			return "", false
		}
		select {
		case text := <-got:
			return text, true
		case <-time.After(within):
			return "", false
		}
	}}
}

// inbox keeps the frames that come to a pod's interface.
func (p *testPod) inbox() *inbox {
	p.tb.Helper()
	socket, buffer := p.listens(), make([]byte, 1<<16)
	return &inbox{next: func(within time.Duration) (string, bool) {
		limit := unix.NsecToTimeval(int64(max(within, time.Microsecond)))
		must(p.tb, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
		n, _, err := unix.Recvfrom(socket, buffer, 0)
		return string(buffer[:max(n, 0)]), err == nil
	}}
}

// found returns the first piece with a text of all that has come so far, and "" if there is none.
func (b *inbox) found(text string) string {
	for {
		piece, ok := b.next(0)
		if !ok {
			break
		}
		b.came = append(b.came, piece)
	}
	if i := slices.IndexFunc(b.came, func(piece string) bool { return strings.Contains(piece, text) }); i >= 0 {
		return b.came[i]
	}
	return ""
}

// forget lets go what has come so far.
func (b *inbox) forget() {
	b.found("")
	b.came = nil
}

// await waits for a text until one had better send it again.
func (b *inbox) await(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, sendAgain)
	defer cancel()
	for b.found(text) == "" {
		if piece, ok := b.next(sendAgain / 10); ok {
			b.came = append(b.came, piece)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%q does not arrive", text)
		}
	}
	return nil
}

// wantArrival sends until a text arrives. Open vSwitch judges by what it has cached for a moment more than the rows are there.
func (b *inbox) wantArrival(tb testing.TB, text string, send func()) {
	tb.Helper()
	wait.Eventually(tb, wait.Patience, "arrival", func(ctx context.Context) error {
		send()
		return b.await(ctx, text)
	})
}

// never expects that a text does not arrive: what marks sends by a permitted way arrives after it.
func (b *inbox) never(tb testing.TB, text string, attack func(), marks func(text string)) {
	tb.Helper()
	b.forget()
	wait.Never(tb, text, wait.Attack{
		Send: attack,
		Marker: func(ctx context.Context) error {
			mark := fmt.Sprintf("marker %d.", texts.Add(1))
			marks(mark)
			return b.await(ctx, mark)
		},
		Came: func() string { return b.found(text) },
	})
}
