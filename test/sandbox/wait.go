package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// crashes is how often a daemon may start anew, while it is waited for, before that counts as failure.
const crashes = 5

// waitDaemons waits until daemons of several places are ready.
func (s *Sandbox) waitDaemons(ctx context.Context, places []string, daemons ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, place := range places {
		for _, daemon := range daemons {
			group.Go(func() error { return s.waitDaemon(ctx, place, daemon) })
		}
	}
	return group.Wait()
}

// waitDaemon waits until a daemon is ready. The error says what it printed last.
func (s *Sandbox) waitDaemon(ctx context.Context, place, daemon string) error {
	var last Daemon
	before := -1 // restarts when the waiting began
	err := poll(ctx, daemonLimit, daemon+" on "+place+" to be ready", func(ctx context.Context) (bool, error) {
		client, err := s.supervisor(place)
		if err != nil {
			return false, err
		}
		daemons, err := client.Daemons(ctx)
		if err != nil {
			last.Problem = err.Error()
			return false, nil //nolint:nilerr // the supervisor may not listen yet; the limit decides
		}
		at := slices.IndexFunc(daemons, func(d Daemon) bool { return d.Name == daemon })
		if at < 0 {
			return false, fmt.Errorf("find daemon %s on %s: there is none", daemon, place)
		}
		last = daemons[at]
		if before < 0 {
			before = last.Restarts
		}
		if ended := last.Restarts - before; !last.Ready && ended >= crashes {
			return false, fmt.Errorf("wait for %s on %s: it ended %d times", daemon, place, ended)
		}
		return last.Ready, nil
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	if last.Problem != "" {
		err = fmt.Errorf("%w; %s", err, last.Problem)
	}
	return fmt.Errorf("%w%s", err, s.logTail(place, daemon))
}

// logTail renders the end of a daemon's log for an error message.
func (s *Sandbox) logTail(place, daemon string) string {
	path := s.LogPath(place, daemon)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		path = s.record.layout().logs() + "/" + place + ".log" // the daemon never started; why, its supervisor tells
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return fmt.Sprintf("\n(no log: %v)", err)
	}
	if len(data) == 0 {
		return "\n(it printed nothing: " + path + " is empty)"
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-10):]
	return fmt.Sprintf("\n--- the last lines of %s:\n%s\n---", path, strings.Join(lines, "\n"))
}
