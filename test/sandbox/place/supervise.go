package place

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// restartDelay is the pause between the end of a daemon and its next start.
	restartDelay = 500 * time.Millisecond
	// stopGrace is how long a daemon may take to end after SIGTERM.
	stopGrace = 5 * time.Second
)

// supervisor keeps one daemon in the state that was asked for. Its run method is the one owner of the
// process; the rest asks through wanted.
type supervisor struct {
	spec     DaemonSpec
	children *children
	log      string
	after    []*supervisor

	// once is closed when the daemon has been ready for the first time.
	once  chan struct{}
	first sync.Once
	// wanted carries true for up, false for down.
	wanted chan bool

	mu     sync.Mutex
	daemon Daemon
}

func newSupervisor(spec DaemonSpec, place, logs string, children *children) *supervisor {
	return &supervisor{
		spec: spec, children: children,
		log:    filepath.Join(logs, place+"-"+spec.Name+".log"),
		once:   make(chan struct{}),
		wanted: make(chan bool),
		daemon: Daemon{Name: spec.Name, Held: spec.Held, Restarts: -1},
	}
}

// status returns a copy of the daemon's state.
func (s *supervisor) status() Daemon {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.daemon
	d.Restarts = max(d.Restarts, 0)
	return d
}

func (s *supervisor) change(f func(*Daemon)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.daemon)
}

// signal sends a signal to the daemon's process.
func (s *supervisor) signal(number syscall.Signal) error {
	pid := s.status().PID
	if pid == 0 {
		return fmt.Errorf("signal %s: it is not running", s.spec.Name)
	}
	if err := syscall.Kill(pid, number); err != nil {
		return fmt.Errorf("signal %s: %w", s.spec.Name, err)
	}
	return nil
}

// want asks for the daemon to be up or down and returns when the supervisor has taken it; for down that is when
// the process has ended.
func (s *supervisor) want(ctx context.Context, up bool) error {
	select {
	case s.wanted <- up:
	case <-ctx.Done():
		return ctx.Err()
	}
	if up {
		return nil
	}
	for s.status().PID != 0 {
		select {
		case <-time.After(checkEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// run supervises until the context ends.
func (s *supervisor) run(ctx context.Context) {
	up := !s.spec.Held
	for ctx.Err() == nil {
		if !up {
			s.change(func(d *Daemon) { d.Held, d.Problem = true, "" })
			select {
			case up = <-s.wanted:
			case <-ctx.Done():
			}
			continue
		}
		s.change(func(d *Daemon) { d.Held = false })
		if !s.waitForOthers(ctx, &up) {
			continue
		}
		up = s.runOnce(ctx)
		if !up {
			continue
		}
		select {
		case <-time.After(restartDelay):
		case up = <-s.wanted:
		case <-ctx.Done():
		}
	}
}

// waitForOthers blocks until the daemons that this one follows have been ready once. It returns false if
// something else was asked for meanwhile.
func (s *supervisor) waitForOthers(ctx context.Context, up *bool) bool {
	for _, other := range s.after {
		s.change(func(d *Daemon) { d.Problem = "waits for " + other.spec.Name })
		select {
		case <-other.once:
		case *up = <-s.wanted:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// runOnce starts the daemon and stays until it has ended. It returns whether the daemon is still wanted.
func (s *supervisor) runOnce(ctx context.Context) bool {
	output, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.change(func(d *Daemon) { d.Problem = err.Error() })
		return true
	}
	pid, exit, err := s.children.start(s.spec.Argv, output)
	output.Close()
	if err != nil {
		s.change(func(d *Daemon) { d.Problem = err.Error() })
		slog.Error("daemon does not start", "daemon", s.spec.Name, "err", err)
		return true
	}
	s.change(func(d *Daemon) {
		d.PID, d.Since, d.Ready, d.Problem = pid, time.Now(), false, "starts"
		d.Restarts++
	})
	checking, stopChecking := context.WithCancel(ctx)
	defer stopChecking()
	go s.becomeReady(checking)

	up := true
	var status syscall.WaitStatus
	var kill <-chan time.Time
	for ended := false; !ended; {
		select {
		case status = <-exit:
			ended = true
		case up = <-s.wanted:
			if !up && kill == nil {
				_ = syscall.Kill(pid, syscall.SIGTERM) // if it has ended already, exit tells
				kill = time.After(stopGrace)
			}
		case <-kill:
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	stopChecking()
	s.change(func(d *Daemon) { d.PID, d.Ready, d.Problem = 0, false, describe(status) })
	slog.Info("daemon ended", "daemon", s.spec.Name, "how", describe(status), "wanted", up)
	return up
}

// becomeReady waits for the check and marks the daemon ready.
func (s *supervisor) becomeReady(ctx context.Context) {
	problem := func(err error) {
		if ctx.Err() == nil {
			s.change(func(d *Daemon) { d.Problem = err.Error() })
		}
	}
	if s.spec.Ready.wait(ctx, problem) != nil {
		return
	}
	s.mu.Lock()
	if ctx.Err() == nil {
		s.daemon.Ready, s.daemon.Problem = true, ""
		s.first.Do(func() { close(s.once) })
	}
	s.mu.Unlock()
}
