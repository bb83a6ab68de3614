package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestRelayCountsTransactions: what passes is passed on as it is, and transactions alone are counted.
func TestRelayCountsTransactions(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	server, err := net.Listen("unix", filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r, err := startRelay(t.Context(), filepath.Join(dir, "relay"), "unix:"+server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		text, _ := io.ReadAll(conn)
		got <- string(text)
		_ = conn.Close()
	}()
	conn, err := net.Dial("unix", filepath.Join(dir, "relay"))
	if err != nil {
		t.Fatal(err)
	}
	echo := `{"method":"echo","params":[],"id":1}`
	transact := `{"method":"transact","params":["OVN_Northbound",{"op":"comment","comment":"{"}],"id":2}`
	sent := echo + transact + echo + transact
	if _, err := fmt.Fprint(conn, sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != sent {
		t.Errorf("passed on %q, want %q", text, sent)
	}
	_ = conn.Close()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if sum, want := r.sum(), (written{Bytes: int64(2 * len(transact)), Transactions: 2}); sum != want {
		t.Errorf("counted %+v, want %+v", sum, want)
	}
}
