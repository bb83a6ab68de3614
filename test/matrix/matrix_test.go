package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

var update = flag.Bool("update", false, "write the golden files")

func examplePods() []Pod {
	pod := func(network, name, address, node string) Pod {
		return Pod{
			Namespace: network, Name: name, UID: network + "-" + name, Network: network, Node: node,
			Address: netip.MustParseAddr(address),
		}
	}
	pods := []Pod{
		pod("red", "web-7d-x2k", "10.0.0.3", "n2"),
		pod("blue", "same-5c-9qj", "10.0.0.10", "n1"),
		pod("red", "same-6b-4hd", "10.0.0.10", "n1"),
		pod("red", "db-55-zzz", "10.0.1.2", "n3"),
		pod("blue", "web-58-mmm", "10.0.0.4", "n3"),
	}
	Sort(pods)
	return pods
}

// world is a semantic fake of a cluster with netprobe in every pod: who answers is decided by deliver.
type world struct {
	pods []Pod
	// deliver returns the index of the pod that a packet ends at, and whether an answer finds its way back.
	deliver func(from int, to netip.Addr, protocol wire.Protocol) (at int, answered bool)

	mu   sync.Mutex
	seen map[int][]wire.Sighting
}

// isolated is a world that works: packets end at the pod of the source's Network that holds the address.
func isolated(pods []Pod) *world {
	w := &world{pods: pods, seen: map[int][]wire.Sighting{}}
	w.deliver = func(from int, to netip.Addr, _ wire.Protocol) (int, bool) {
		for i, p := range pods {
			if p.Network == pods[from].Network && p.Address == to {
				return i, true
			}
		}
		return -1, false
	}
	return w
}

func (w *world) exec(_ context.Context, namespace, name string, stdin io.Reader, command ...string) ([]byte, error) {
	self := -1
	for i, p := range w.pods {
		if p.Namespace == namespace && p.Name == name {
			self = i
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch strings.Join(command[:2], " ") {
	case Program + " probe":
		var targets []wire.Target
		if err := json.NewDecoder(stdin).Decode(&targets); err != nil {
			return nil, err
		}
		var results []wire.Result
		for _, t := range targets {
			if err := t.Validate(); err != nil {
				return nil, err
			}
			r := wire.Result{Token: t.Token, Tries: 1}
			at, answered := w.deliver(self, t.Address, t.Protocol)
			if at >= 0 {
				w.seen[at] = append(w.seen[at], wire.Sighting{Token: t.Token, Protocol: t.Protocol, From: w.pods[self].Address})
			}
			if answered {
				r.Answered = true
				if t.Protocol != wire.ICMP {
					r.Answerer = wire.Identity{Namespace: w.pods[at].Namespace, Name: w.pods[at].Name, UID: w.pods[at].UID}
				}
			}
			results = append(results, r)
		}
		return json.Marshal(results)
	case Program + " seen":
		return json.Marshal(w.seen[self])
	}
	return nil, fmt.Errorf("unknown command %q", command)
}

func TestRun(t *testing.T) {
	pods := examplePods()
	index := func(name string) int {
		for i, p := range pods {
			if strings.HasPrefix(p.String(), name) {
				return i
			}
		}
		t.Fatalf("no pod %s", name)
		return -1
	}
	sound := isolated(pods).deliver
	tests := map[string]struct {
		deliver func(from int, to netip.Addr, protocol wire.Protocol) (int, bool)
		ok      bool
	}{
		"sound": {deliver: sound, ok: true},
		// Every packet to 10.0.0.10 ends at blue's pod: the answers look right by address.
		"leak": {deliver: func(from int, to netip.Addr, protocol wire.Protocol) (int, bool) {
			if to == pods[index("blue/same")].Address {
				return index("blue/same"), true
			}
			return sound(from, to, protocol)
		}},
		// Packets cross into another Network, but no answer comes back: silence alone would hide it.
		"one-way-leak": {deliver: func(from int, to netip.Addr, protocol wire.Protocol) (int, bool) {
			if pods[from].Network == "red" && to == pods[index("blue/web")].Address {
				return index("blue/web"), false
			}
			return sound(from, to, protocol)
		}},
		"no-tcp-udp": {deliver: func(from int, to netip.Addr, protocol wire.Protocol) (int, bool) {
			at, _ := sound(from, to, protocol)
			return at, at >= 0 && protocol == wire.ICMP
		}},
		// Nothing was probed at all: isolation looks perfect.
		"mute": {deliver: func(int, netip.Addr, wire.Protocol) (int, bool) { return -1, false }},
		"wrong-pod": {deliver: func(from int, to netip.Addr, protocol wire.Protocol) (int, bool) {
			if pods[from].Network == "red" && to == pods[index("red/db")].Address {
				return index("red/web"), true
			}
			return sound(from, to, protocol)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := isolated(pods)
			w.deliver = test.deliver
			m, err := Run(t.Context(), w.exec, pods)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Verdict().OK(); got != test.ok {
				t.Errorf("verdict OK is %v, want %v", got, test.ok)
			}
			var out bytes.Buffer
			if err := m.Print(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

func TestLonePodProvesNothing(t *testing.T) {
	pods := examplePods()
	pods = append(pods, Pod{
		Namespace: "green", Name: "alone", UID: "g", Network: "green", Node: "n1", Address: netip.MustParseAddr("10.0.0.10"),
	})
	m, err := Run(t.Context(), isolated(pods).exec, pods)
	if err != nil {
		t.Fatal(err)
	}
	failures := strings.Join(m.Verdict().Failures, "\n")
	if want := "green/alone reached nobody: its silence proves nothing\ngreen/alone was reached by nobody: " +
		"silence towards it proves nothing"; failures != want {
		t.Errorf("failures:\n%s\nwant:\n%s", failures, want)
	}
	if v := (&Matrix{}).Verdict(); v.OK() {
		t.Error("a matrix without pods passed")
	}
}

func TestRunReportsExecErrors(t *testing.T) {
	pods := examplePods()
	for name, exec := range map[string]Exec{
		"fails": func(context.Context, string, string, io.Reader, ...string) ([]byte, error) {
			return nil, io.ErrUnexpectedEOF
		},
		"not JSON": func(context.Context, string, string, io.Reader, ...string) ([]byte, error) {
			return []byte("hello"), nil
		},
		"nothing": func(context.Context, string, string, io.Reader, ...string) ([]byte, error) { return []byte("[]"), nil },
	} {
		if _, err := Run(t.Context(), exec, pods); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// golden compares got with testdata/<name>.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
