package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/atoll-net/atoll/test/demo/ready"
)

// ticker shows how far the cluster has come: on a terminal in one line that is rewritten, elsewhere with one
// line for each change of the counts.
type ticker struct {
	out      io.Writer
	terminal bool
	started  time.Time
	counts   string
}

func newTicker(out *os.File) *ticker {
	return &ticker{out: out, terminal: term.IsTerminal(int(out.Fd())), started: time.Now()}
}

// lineWidth is what a rewritten line may take, so that it does not wrap.
const lineWidth = 110

func (t *ticker) report(r ready.Report) {
	line := fmt.Sprintf("%6s  %s", round(time.Since(t.started)), r)
	counts, _, _ := strings.Cut(r.String(), ";")
	changed := counts != t.counts
	t.counts = counts
	switch {
	case t.terminal:
		if len(line) > lineWidth {
			line = line[:lineWidth-3] + "..."
		}
		end := ""
		if r.Done() {
			end = "\n"
		}
		fmt.Fprintf(t.out, "\r\x1b[2K%s%s", line, end)
	case changed || r.Done():
		fmt.Fprintln(t.out, line)
	}
}

// durations are the times of named steps, in order.
type durations []string

func (d *durations) measure(name string, step func() error) error {
	started := time.Now()
	err := step()
	*d = append(*d, fmt.Sprintf("%s %s", name, round(time.Since(started))))
	return err
}

func (d durations) String() string { return strings.Join(d, ", ") }

// round leaves of a duration what a person wants to know.
func round(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
