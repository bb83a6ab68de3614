//go:build integration

package ovsdb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	session "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// overheard listens at a socket and forwards to the server's. It calls look with each message that asks for something.
func overheard(t *testing.T, server string, look func(said []byte)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = client.Close() }()
				to, err := net.Dial("unix", server)
				if err != nil {
					t.Error(err)
					return
				}
				running.Go(func() {
					_, _ = io.Copy(client, to)
					_ = client.Close()
				})
				_, _ = io.Copy(to, io.TeeReader(client, heard(look)))
				_ = to.Close()
			})
		}
	})
	return socket
}

// heard gives what is written to it to a function.
type heard func([]byte)

// Write implements io.Writer.
func (h heard) Write(p []byte) (int, error) {
	h(p)
	return len(p), nil
}

// told has a server do a transaction.
func told(t *testing.T, server, params string) {
	t.Helper()
	conn, err := net.Dial("unix", server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, `{"id":0,"method":"transact","params":%s}`, params); err != nil {
		t.Fatal(err)
	}
	var answer json.RawMessage
	if err := json.NewDecoder(conn).Decode(&answer); err != nil || bytes.Contains(answer, []byte(`"details"`)) {
		t.Fatalf("%s: %v", answer, err)
	}
}

// TestASamplerEndsInTheMiddle: one that is told to end while it writes, writes nothing more, however much is left. The control is
// that it writes all when it is not.
func TestASamplerEndsInTheMiddle(t *testing.T) {
	central := ovn.Start(t, false)
	// The Sampler writes 500 at a time: the one that ends has written 500, and 3 transactions are left for the control.
	const groups, each, transactions = 4, 400, 3
	server := strings.TrimPrefix(central.NBAddress(), "unix:")
	if out, err := central.NBCtl(t.Context(), "set", "NB_Global", ".", "external_ids:"+nb.KeyEpoch+"=e"); err != nil {
		t.Fatal(out, err)
	}
	for g := range groups {
		var rules, names strings.Builder
		for n := range each {
			fmt.Fprintf(&rules,
				`{"op":"insert","table":"ACL","uuid-name":"a%d","row":{"action":"drop","direction":"to-lport","priority":1,"match":"ip4","external_ids":["map",[["atoll.dev/owner","Network/red"]]]}},`, n)
			fmt.Fprintf(&names, `,["named-uuid","a%d"]`, n)
		}
		told(t, server,
			fmt.Sprintf(`["OVN_Northbound",%s{"op":"insert","table":"Port_Group","row":{"name":"g%d","acls":["set",[%s]]}}]`, rules.String(), g,
				names.String()[1:]))
	}
	for _, ends := range []bool{true, false} {
		ctx, end := context.WithCancel(wait.Context(t, wait.Patience))
		defer end()
		var mu sync.Mutex
		writes := 0
		socket := overheard(t, server, func(said []byte) {
			mu.Lock()
			defer mu.Unlock()
			// Each transaction has this once, at its beginning.
			if writes += bytes.Count(said, []byte(`"op":"wait"`)); ends && writes > 0 || writes >= transactions {
				end()
			}
		})
		err := session.Sampler{
			Config: session.Config{Addresses: []string{"unix:" + socket}, Log: slog.New(slog.DiscardHandler)}, Epoch: "e", On: true,
		}.Run(ctx)
		mu.Lock()
		if err != nil || (writes > 1) == ends || ends && writes != 1 {
			t.Errorf("told to end %t: %d transactions, %v", ends, writes, err)
		}
		mu.Unlock()
	}
}
