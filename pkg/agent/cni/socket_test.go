package cni

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A server takes half a second to let go of a connection whose request it did not read to the end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fakeAgent answers as it is told, and says when a request's context ended.
type fakeAgent struct {
	err   error
	began chan struct{}
	ended chan struct{}
}

func (f fakeAgent) Add(ctx context.Context, _ Request) (*current.Result, error) {
	if f.began != nil {
		close(f.began)
		<-ctx.Done()
		close(f.ended)
	}
	return &current.Result{CNIVersion: current.ImplementedSpecVersion}, f.err
}
func (f fakeAgent) Del(context.Context, Request) error   { return f.err }
func (f fakeAgent) Check(context.Context, Request) error { return f.err }
func (f fakeAgent) GC(context.Context, Request) error    { return f.err }
func (f fakeAgent) Status(context.Context) error         { return f.err }

func serveAgent(t *testing.T, socket string, agent Backend) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: Handler(agent, slog.New(slog.DiscardHandler)), ReadHeaderTimeout: time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { _ = server.Close(); <-ended })
}

// commandArgs is what a runtime gives for any command.
func commandArgs(socket, netns string) *skel.CmdArgs {
	return &skel.CmdArgs{
		ContainerID: "c1", IfName: "eth0", Netns: netns, Args: podArguments,
		StdinData: []byte(`{"cniVersion":"1.1.0","name":"atoll","socket":"` + socket + `"}`),
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		code uint
	}{
		{"success", nil, 0},
		{"with a code", types.NewError(types.ErrTryAgainLater, "later", ""), types.ErrTryAgainLater},
		{"without a code", errors.New("no bridge"), types.ErrInternal},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "s")
			serveAgent(t, socket, fakeAgent{err: test.err})
			funcs := plugin{patience: always(0)}.funcs(t.Context())
			for name, run := range map[string]func(*skel.CmdArgs) error{
				"del": funcs.Del, "check": funcs.Check, "gc": funcs.GC, "status": funcs.Status,
			} {
				if err := run(commandArgs(socket, "/n")); codeOf(err) != test.code {
					t.Errorf("%s: %v, want code %d", name, err, test.code)
				}
			}
		})
	}
}

func TestAgentAway(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "nobody")
	funcs := plugin{patience: always(0)}.funcs(t.Context())
	const alive = "/proc/self/ns/net"
	for _, test := range []struct {
		name  string
		run   func(*skel.CmdArgs) error
		netns string
		code  uint
	}{
		{"add", funcs.Add, alive, types.ErrTryAgainLater},
		{"del while the namespace is there", funcs.Del, alive, types.ErrTryAgainLater},
		{"del after the namespace has gone", funcs.Del, "/nowhere", 0},
		{"del without a namespace", funcs.Del, "", 0},
		{"check", funcs.Check, alive, types.ErrTryAgainLater},
		{"status", funcs.Status, alive, types.ErrPluginNotAvailable},
	} {
		err := test.run(commandArgs(socket, test.netns))
		if codeOf(err) != test.code {
			t.Errorf("%s: %v, want code %d", test.name, err, test.code)
		}
		if err != nil && !strings.Contains(err.Error(), "is the atoll-agent running?") {
			t.Errorf("%s: %q does not say where to look", test.name, err)
		}
	}
}

func TestPluginWaitsForAnAgentThatRestarts(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	done := make(chan error)
	go func() {
		done <- plugin{patience: always(time.Minute)}.funcs(t.Context()).Status(commandArgs(socket, ""))
	}()
	serveAgent(t, socket, fakeAgent{})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRequestEndsWithThePlugin(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	agent := fakeAgent{began: make(chan struct{}), ended: make(chan struct{})}
	serveAgent(t, socket, agent)
	ctx, kill := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- plugin{patience: always(0)}.funcs(ctx).Add(commandArgs(socket, "/n")) }()
	<-agent.began
	kill()
	<-agent.ended
	if err := <-done; codeOf(err) != types.ErrTryAgainLater {
		t.Errorf("error %v", err)
	}
}

func TestHandlerRefusesWhatIsTooLong(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	serveAgent(t, socket, fakeAgent{})
	request := Request{Command: GC, Valid: make([]Attachment, 100_000)}
	for i := range request.Valid {
		request.Valid[i].ContainerID = "0123456789"
	}
	if _, err := (client{socket: socket}).call(t.Context(), request); err == nil {
		t.Error("a request of megabytes was read")
	}
	if _, err := os.Stat(socket); err != nil {
		t.Error(err)
	}
}

// always has the same patience with every command.
func always(d time.Duration) func(Command) time.Duration {
	return func(Command) time.Duration { return d }
}

// TestAPodIsToldInTime: a failed ADD is followed by a DEL before anybody hears of it.
func TestAPodIsToldInTime(t *testing.T) {
	if both := patienceFor(Add) + patienceFor(Del); both > 8*time.Second {
		t.Errorf("ADD and DEL wait for %s", both)
	}
}
