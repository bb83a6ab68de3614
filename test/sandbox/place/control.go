package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// request is what a client sends: one JSON value per connection, answered by one response.
type request struct {
	// Action is status, start, stop, restart or signal.
	Action string         `json:"action"`
	Daemon string         `json:"daemon,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
}

type response struct {
	Daemons []Daemon `json:"daemons,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// requestLimit bounds one request: stopping a daemon takes at most stopGrace.
const requestLimit = 2 * stopGrace

func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old control socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("protect control socket: %w", err)
	}
	return listener, nil
}

// serve answers clients until the context ends.
func serve(ctx context.Context, listener net.Listener, supervisors []*supervisor) {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		go func() { // ends with its one answer, or by the deadline
			defer conn.Close()
			ctx, cancel := context.WithTimeout(ctx, requestLimit)
			defer cancel()
			_ = conn.SetDeadline(time.Now().Add(requestLimit))
			var ask request
			if json.NewDecoder(conn).Decode(&ask) == nil {
				_ = json.NewEncoder(conn).Encode(answer(ctx, supervisors, ask)) // a client that went away needs none
			}
		}()
	}
}

func answer(ctx context.Context, supervisors []*supervisor, ask request) response {
	var target *supervisor
	var all []Daemon
	for _, s := range supervisors {
		all = append(all, s.status())
		if s.spec.Name == ask.Daemon {
			target = s
		}
	}
	if ask.Action == "status" {
		return response{Daemons: all}
	}
	if target == nil {
		return response{Error: fmt.Sprintf("no daemon %q here", ask.Daemon)}
	}
	var err error
	switch ask.Action {
	case "signal":
		err = target.signal(ask.Signal)
	case "start":
		err = target.want(ctx, true)
	case "stop":
		err = target.want(ctx, false)
	case "restart":
		if err = target.want(ctx, false); err == nil {
			err = target.want(ctx, true)
		}
	default:
		err = fmt.Errorf("unknown action %q", ask.Action)
	}
	if err != nil {
		return response{Error: err.Error()}
	}
	return response{}
}

// Client asks the first process of a place, by its control socket.
type Client struct{ Socket string }

// Daemons returns the state of all daemons of the place.
func (c Client) Daemons(ctx context.Context) ([]Daemon, error) {
	r, err := c.ask(ctx, request{Action: "status"})
	return r.Daemons, err
}

// Signal sends a signal to a daemon.
func (c Client) Signal(ctx context.Context, daemon string, number syscall.Signal) error {
	_, err := c.ask(ctx, request{Action: "signal", Daemon: daemon, Signal: number})
	return err
}

// Start starts a daemon that is held.
func (c Client) Start(ctx context.Context, daemon string) error {
	_, err := c.ask(ctx, request{Action: "start", Daemon: daemon})
	return err
}

// Stop ends a daemon and holds it. It returns when the process has ended.
func (c Client) Stop(ctx context.Context, daemon string) error {
	_, err := c.ask(ctx, request{Action: "stop", Daemon: daemon})
	return err
}

// Restart stops a daemon and starts it again.
func (c Client) Restart(ctx context.Context, daemon string) error {
	_, err := c.ask(ctx, request{Action: "restart", Daemon: daemon})
	return err
}

func (c Client) ask(ctx context.Context, ask request) (response, error) {
	var r response
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return r, fmt.Errorf("reach supervisor: %w", err)
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(2 * requestLimit)
	}
	_ = conn.SetDeadline(deadline)
	if err := json.NewEncoder(conn).Encode(ask); err != nil {
		return r, fmt.Errorf("ask supervisor: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return r, fmt.Errorf("hear supervisor: %w", err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("ask supervisor: %s", r.Error)
	}
	return r, nil
}

// PID returns the number of the place's first process, as the caller's pid namespace counts.
func (c Client) PID(ctx context.Context) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return 0, fmt.Errorf("reach supervisor: %w", err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("identify supervisor: %w", err)
	}
	var peer *unix.Ucred
	var asked error
	// SO_PEERCRED (unix(7)) names the process that listens.
	err = raw.Control(func(fd uintptr) {
		peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, asked); err != nil {
		return 0, fmt.Errorf("identify supervisor: %w", err)
	}
	return int(peer.Pid), nil
}
