package place

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/atoll-net/atoll/test/wait"
)

// start runs supervisors for daemons as the first process of a place would, and a client of theirs.
func start(t *testing.T, daemons ...DaemonSpec) (Client, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "place") // short: a unix socket has to fit below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(context.Background())
	children := newChildren([]string{"PATH=/usr/bin:/bin"})
	supervisors, err := wire(Spec{Name: "here", Logs: dir, Daemons: daemons}, children)
	if err != nil {
		t.Fatal(err)
	}
	client := Client{filepath.Join(dir, "control")}
	listener, err := listen(client.Socket)
	if err != nil {
		t.Fatal(err)
	}
	var tasks, reaper sync.WaitGroup
	reaping, stopReaping := context.WithCancel(context.Background())
	reaper.Go(func() { children.reap(reaping) })
	for _, s := range supervisors {
		tasks.Go(func() { s.run(ctx) })
	}
	tasks.Go(func() { serve(ctx, listener, supervisors) })
	t.Cleanup(func() {
		for _, d := range daemons {
			if err := client.Stop(context.Background(), d.Name); err != nil {
				t.Errorf("stop %s: %v", d.Name, err)
			}
		}
		cancel()
		tasks.Wait()
		stopReaping()
		reaper.Wait()
	})
	return client, dir
}

// until waits for a state of a daemon.
func until(t *testing.T, client Client, name, what string, holds func(Daemon) bool) Daemon {
	t.Helper()
	var last Daemon
	wait.Eventually(t, wait.Patience, name+" "+what, func(context.Context) error {
		daemons, err := client.Daemons(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range daemons {
			if d.Name == name {
				last = d
			}
		}
		if !holds(last) {
			return fmt.Errorf("%+v", last)
		}
		return nil
	})
	return last
}

func isReady(d Daemon) bool { return d.Ready }

func sleeper(name string) DaemonSpec {
	return DaemonSpec{Name: name, Argv: []string{"sleep", "1000"}}
}

func TestDaemonThatDiesIsStartedAgain(t *testing.T) {
	client, _ := start(t, sleeper("a"))
	first := until(t, client, "a", "ready", isReady)
	if err := client.Signal(t.Context(), "a", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := until(t, client, "a", "ready again", func(d Daemon) bool { return d.Ready && d.PID != first.PID })
	if first.Restarts != 0 || second.Restarts != 1 {
		t.Errorf("restarts are %d and then %d, want 0 and 1", first.Restarts, second.Restarts)
	}
	if pause := second.Since.Sub(first.Since); pause < restartDelay {
		t.Errorf("it was started again after %s, want at least %s", pause, restartDelay)
	}
}

func TestDaemonThatIsStoppedStaysDown(t *testing.T) {
	client, _ := start(t, sleeper("a"))
	until(t, client, "a", "ready", isReady)
	if err := client.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	until(t, client, "a", "held", func(d Daemon) bool { return d.Held && d.PID == 0 })
	if err := client.Signal(t.Context(), "a", syscall.SIGTERM); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("a signal to a daemon that is down gives %v", err)
	}
	if err := client.Start(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	until(t, client, "a", "ready", isReady)
	before := until(t, client, "a", "ready", isReady)
	if err := client.Restart(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	until(t, client, "a", "another process", func(d Daemon) bool { return d.Ready && d.PID != before.PID })
}

// TestOrder: a daemon starts after the one that it comes after is ready, which is when that one has made its socket.
func TestOrder(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	first := DaemonSpec{Name: "first", Argv: []string{"sleep", "1000"}, Ready: Check{Socket: socket}}
	second := DaemonSpec{Name: "second", Argv: []string{"sleep", "1000"}, After: []string{"first"}}
	client, _ := start(t, first, second)
	until(t, client, "first", "runs", func(d Daemon) bool { return d.PID != 0 && !d.Ready })
	if d := until(t, client, "second", "is known", func(Daemon) bool { return true }); d.PID != 0 {
		t.Errorf("the second daemon runs before the first is ready: %+v", d)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	until(t, client, "second", "ready", isReady)
}

func TestHeldDaemonWaits(t *testing.T) {
	held := sleeper("held")
	held.Held = true
	client, _ := start(t, sleeper("a"), held)
	until(t, client, "a", "ready", isReady)
	until(t, client, "held", "held", func(d Daemon) bool { return d.Held && d.PID == 0 })
	if err := client.Start(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	until(t, client, "held", "ready", isReady)
}

func TestDaemonThatCannotStartSaysWhy(t *testing.T) {
	client, _ := start(t, DaemonSpec{Name: "a", Argv: []string{"/nowhere/at/all"}})
	until(t, client, "a", "a problem", func(d Daemon) bool { return strings.Contains(d.Problem, "/nowhere/at/all") })
}

func TestSocketCheck(t *testing.T) {
	dir, err := os.MkdirTemp("", "place")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	check := Check{Socket: path}
	if check.probe(t.Context()) == nil {
		t.Error("a socket that is not there passes")
	}
	listener, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := check.probe(t.Context()); err != nil {
		t.Errorf("a socket that listens fails: %v", err)
	}
}

func TestUnknownDaemon(t *testing.T) {
	client, _ := start(t, sleeper("a"))
	if err := client.Start(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("starting an unknown daemon gives %v", err)
	}
	pid, err := client.PID(t.Context())
	if err != nil || pid != os.Getpid() {
		t.Errorf("the supervisor is process %d (%v), want %d", pid, err, os.Getpid())
	}
}

func TestWireRefusesBackwardOrder(t *testing.T) {
	_, err := wire(Spec{Daemons: []DaemonSpec{{Name: "a", After: []string{"b"}}, {Name: "b"}}}, newChildren(nil))
	if err == nil {
		t.Error("a daemon that comes after a later one is accepted")
	}
}

func TestMountsBelow(t *testing.T) {
	const mountinfo = `21 28 0:19 / /proc rw - proc proc rw
30 28 0:25 / /run rw - tmpfs tmpfs rw
31 30 0:4 net:[1] /run/netns/a rw - nsfs nsfs rw
32 30 0:4 net:[2] /run/netns/a\040b rw - nsfs nsfs rw
33 30 0:26 / /run/netnsx rw - tmpfs tmpfs rw
`
	got := strings.Join(mountsBelow(mountinfo, "/run/netns"), ",")
	if want := "/run/netns/a b,/run/netns/a"; got != want {
		t.Errorf("mounts are %q, want %q", got, want)
	}
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	if err := writeFiles(dir, map[string]string{"a": "1", "b": "2"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1", "b": "2"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
		}
	}
	if err := writeFiles(dir, map[string]string{"no/where": ""}); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}
