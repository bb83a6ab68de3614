// Package progress shows a person the steps of a long operation while it works: which one of how many, what it
// is doing, and how long each took.
//
// In flow the steps' names and notes, out flow lines of text. On a terminal the line of the running step is
// redrawn; elsewhere a step is one line when it has ended, preceded by a line for each note and, when
// it lasts, by a sign of life twice a minute. Every step that begins ends in exactly one line.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	redraw     = 200 * time.Millisecond
	signOfLife = 30 * time.Second
	// width holds the longest step name we use, so that the times stand in one column.
	width = 44
)

// Steps is one operation. It is used by one goroutine; only Note may be called from others.
type Steps struct {
	out      io.Writer
	terminal bool
	total    int
	began    time.Time
	now      func() time.Time

	mu      sync.Mutex
	number  int
	title   string
	note    string
	started time.Time
}

// New shows an operation of so many steps on out.
func New(out io.Writer, total int) *Steps {
	file, isFile := out.(*os.File)
	return &Steps{
		out: out, total: total, now: time.Now, began: time.Now(),
		terminal: isFile && term.IsTerminal(int(file.Fd())),
	}
}

// Expect says how many steps there are, once that is known. It is called before the first step.
func (s *Steps) Expect(total int) { s.total = total }

// Do runs one step. The error comes back as it is; the line says that the step failed, not why.
func (s *Steps) Do(title string, step func() error) error {
	s.mu.Lock()
	s.number++
	s.title, s.note, s.started = title, "", s.now()
	s.mu.Unlock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		s.animate(stop)
	}()
	err := step()
	close(stop)
	<-stopped
	s.finish(err)
	return err
}

// Note says what the running step is at.
func (s *Steps) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = fmt.Sprintf(format, args...)
	if !s.terminal {
		fmt.Fprintf(s.out, "%s %s: %s\n", s.counter(), s.title, s.note)
	}
}

// Elapsed is the time since the operation began.
func (s *Steps) Elapsed() time.Duration { return s.now().Sub(s.began) }

func (s *Steps) animate(stop <-chan struct{}) {
	every := signOfLife
	if s.terminal {
		every = redraw
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		if s.terminal {
			s.draw()
		}
		s.mu.Unlock()
		select {
		case <-stop:
			return
		case <-ticker.C:
			if !s.terminal {
				s.mu.Lock()
				fmt.Fprintf(s.out, "%s %s: still at it after %s\n", s.counter(), s.title, Round(s.now().Sub(s.started)))
				s.mu.Unlock()
			}
		}
	}
}

// draw rewrites the terminal's last line.
func (s *Steps) draw() {
	line := fmt.Sprintf("%s %-*s %8s", s.counter(), width, s.title, Round(s.now().Sub(s.started)))
	if s.note != "" {
		line += "  " + s.note
	}
	fmt.Fprintf(s.out, "\r\x1b[2K%s", line)
}

func (s *Steps) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[2K")
	}
	line := fmt.Sprintf("%s %-*s %8s", s.counter(), width, s.title, Round(s.now().Sub(s.started)))
	if err != nil {
		line += "  failed"
	}
	fmt.Fprintln(s.out, strings.TrimRight(line, " "))
}

func (s *Steps) counter() string { return fmt.Sprintf("[%2d/%d]", s.number, s.total) }

// Round shortens a duration to what a person reads: tenths of a second below a minute, seconds above.
func Round(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
