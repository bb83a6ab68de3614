//go:build integration

package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/dns/names/call"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/test/wait"
)

// openSockets does what atoll-dns portholes does, until the test ends or what is returned is called.
func openSockets(tb testing.TB, socket string) string {
	tb.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- sockets.Serve(ctx, socket, slog.New(slog.NewTextHandler(testWriter{tb}, nil))) }()
	tb.Cleanup(func() {
		stop()
		must(tb, <-ended)
	})
	return socket
}

// envServe has a process of TestNamesWithoutRights be the program: directory of its sockets, socket of its opener, and name of
// its probe's socket, with colons.
const envServe = "ATOLL_TEST_SERVE"

// envDropped says that the program has no capabilities any more.
const envDropped = "ATOLL_TEST_DROPPED"

func serveWithoutRights(t *testing.T, dir, opener, probe string) {
	if os.Getenv(envDropped) == "" {
		dropAll(t)
	}
	config := Config{
		ResolvConf: "/etc/resolv.conf", Socket: filepath.Join(dir, "dns.sock"), ProbeSocket: filepath.Join(dir, probe), Opener: opener,
	}
	must(t, Run(t.Context(), config, cluster(t, "red", "blue"), slog.New(slog.NewTextHandler(os.Stderr, nil))))
}

// startWithoutRights starts a program that serves a directory's dns.sock, and returns when it is ready. What is returned ends it.
func startWithoutRights(t *testing.T, dir, opener, probe string) func() {
	t.Helper()
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNamesWithoutRights$", "-test.count=1")
	program.Env = append(os.Environ(), envServe+"="+strings.Join([]string{dir, opener, probe}, ":"))
	program.Stdout, program.Stderr = testWriter{t}, testWriter{t}
	must(t, program.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = program.Wait() }()
	wait.Eventually(t, wait.Patience, "the program", func(ctx context.Context) error {
		select {
		case <-ended:
			t.Fatal("the program has ended: ", program.ProcessState)
		default:
		}
		return call.NewClient(filepath.Join(dir, probe)).Ready(ctx)
	})
	if got := capabilities(t, program.Process.Pid); !slices.Equal(got, []string{"0000000000000000"}) {
		t.Errorf("it has the capabilities %q", got)
	}
	return func() {
		must(t, program.Process.Kill())
		<-ended
	}
}

// noRoot is SECBIT_NOROOT, locked: root has no capabilities by what it executes (capabilities(7)).
const noRoot = 1<<0 | 1<<1

// dropAll has the process begin anew without capabilities: a thread can drop its own alone, and a process that is executed has
// those of the thread that did it.
func dropAll(t *testing.T) {
	runtime.LockOSThread()
	must(t, unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0))
	var none [2]unix.CapUserData
	must(t, unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]))
	must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	must(t, syscall.Exec(os.Args[0], os.Args, append(os.Environ(), envDropped+"=1")))
}

// TestNamesWithoutRights: a program without a single capability answers in portholes, also in those that come later, by sockets
// that another one opens for it; so does its successor. Control: it cannot open them itself.
func TestNamesWithoutRights(t *testing.T) {
	if of := strings.Split(os.Getenv(envServe), ":"); len(of) == 3 {
		serveWithoutRights(t, of[0], of[1], of[2])
		return
	}
	client := &miekg.Client{Timeout: time.Second}
	for name, opener := range map[string]string{"asks": filepath.Join(t.TempDir(), "portholes.sock"), "opens itself": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if opener != "" {
				openSockets(t, opener)
			}
			end := startWithoutRights(t, dir, opener, "probe.sock")
			defer func() { end() }()
			agent := call.NewClient(filepath.Join(dir, "dns.sock"))
			red := openPorthole(t, "red")
			if opener == "" {
				var served error
				wait.Eventually(t, wait.Patience, "an answer", func(ctx context.Context) error {
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					served = agent.Serve(ctx, string(red))
					if served == nil || strings.Contains(served.Error(), "operation not permitted") {
						return nil
					}
					return served
				})
				if served == nil {
					t.Error("control: it opened sockets without a right to")
				}
				return
			}
			must(t, agent.Serve(t.Context(), string(red)))
			answered := func(by string) {
				t.Helper()
				for _, server := range testServers {
					wait.Eventually(t, wait.Patience, "red, by "+by, func(ctx context.Context) error {
						if got := askIn(ctx, red, "red", client, server); got != "10.96.1.0" {
							return fmt.Errorf("at %s: %s", server, got)
						}
						return nil
					})
				}
			}
			answered("the first")
			endNext := startWithoutRights(t, dir, opener, "next.sock")
			end()
			end = endNext
			answered("its successor")
			// It opens sockets in portholes that came after the first one had gone, too.
			blue := openPorthole(t, "blue")
			must(t, agent.Serve(t.Context(), string(blue)))
			must(t, agent.Leave(t.Context(), string(blue)))
			must(t, agent.Leave(t.Context(), string(red)))
		})
	}
}

// capabilities are those that the threads of a process have, each once.
func capabilities(t *testing.T, pid int) []string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	must(t, err)
	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // The thread has ended.
		}
		must(t, err)
		for line := range strings.Lines(string(text)) {
			for _, set := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"} {
				if value, is := strings.CutPrefix(line, set); is && !slices.Contains(out, strings.TrimSpace(value)) {
					out = append(out, strings.TrimSpace(value))
				}
			}
		}
	}
	return out
}

// TestOnlyPortholesAreOpened: whoever took over the DNS program gets no socket in another network namespace, at another address or port.
func TestOnlyPortholesAreOpened(t *testing.T) {
	c := sockets.Client{Socket: openSockets(t, filepath.Join(t.TempDir(), "portholes.sock"))}
	must(t, c.Await(t.Context()))
	red := openPorthole(t, "red")
	addresses, err := c.NameAddresses(t.Context(), red)
	must(t, err)
	place := sockets.PlaceOf(red, addresses)
	files, err := c.Open(t.Context(), place)
	must(t, err)
	if len(files) != 2*len(testServers) {
		t.Errorf("control: %d sockets for %d addresses", len(files), len(testServers))
	}
	for _, f := range files {
		must(t, f.Close())
	}
	for name, at := range map[string]dns.Place{
		"the node":              {Namespace: "/proc/self/ns/net", Addresses: place.Addresses},
		"another path":          {Namespace: "/var/run/netns/./" + red.Name(), Addresses: place.Addresses},
		"no path":               {Addresses: place.Addresses},
		"any address":           {Namespace: place.Namespace, Addresses: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:53")}},
		"some of its addresses": {Namespace: place.Namespace, Addresses: place.Addresses[:1]},
	} {
		if files, err := c.Open(t.Context(), at); err == nil || len(files) != 0 {
			t.Errorf("%s: %d sockets, %v", name, len(files), err)
		}
	}
}
