package lab

import (
	"fmt"
	"io"
	"time"
)

// Percentile is the smallest of the sorted times that p percent of them do not exceed, in milliseconds.
func Percentile(sorted []time.Duration, p int) float64 {
	rank := (len(sorted)*p + 99) / 100
	return float64(sorted[max(rank, 1)-1]) / float64(time.Millisecond)
}

// Progress says what has been done and how long it took.
type Progress struct {
	to    io.Writer
	since time.Time
}

// NewProgress writes lines to to.
func NewProgress(to io.Writer) *Progress { return &Progress{to: to, since: time.Now()} }

// Done says that something has been done since the last call.
func (p *Progress) Done(what string) {
	fmt.Fprintf(p.to, "%-40s %6.1f s\n", what, time.Since(p.since).Seconds())
	p.since = time.Now()
}

// Say tells what is going on.
func (p *Progress) Say(format string, args ...any) {
	fmt.Fprintf(p.to, "  "+format+"\n", args...)
}
