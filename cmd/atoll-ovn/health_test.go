package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/daemons/chassis"
)

// TestHealth: a probe is answered as the daemon is at that moment, and the log says when that changes, and why.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	h := &health{
		part: chassis.PartSwitch, probes: &probes{dirs: chassis.Directories{Switch: dir, OVN: dir}},
		log: slog.New(slog.NewTextHandler(&log, nil)), slots: make(chan struct{}, healthAtOnce),
	}
	asked := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.routes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for range 2 {
		if code, said := asked("/ready"); code != http.StatusServiceUnavailable || !strings.Contains(said, "ovs-vswitchd.ctl") {
			t.Errorf("without a daemon: %d %s", code, said)
		}
	}
	if code, _ := asked("/live"); code != http.StatusServiceUnavailable {
		t.Errorf("without a daemon it lives: %d", code)
	}
	if n := strings.Count(log.String(), "ready=false"); n != 1 || !strings.Contains(log.String(), "ovs-vswitchd.ctl") {
		t.Errorf("the reason was told %d times:\n%s", n, log.String())
	}
	daemon := daemonAt(t, filepath.Join(dir, "ovs-vswitchd.ctl"))
	for _, path := range []string{"/ready", "/live"} {
		if code, said := asked(path); code != http.StatusOK {
			t.Errorf("%s with a daemon: %d %s", path, code, said)
		}
	}
	if !strings.Contains(log.String(), "ready=true") {
		t.Errorf("that it is ready is not told:\n%s", log.String())
	}
	if err := daemon.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _ := asked("/ready"); code != http.StatusServiceUnavailable {
		t.Errorf("when the daemon has gone: %d", code)
	}
	if code, _ := asked("/"); code != http.StatusNotFound {
		t.Errorf("anything else: %d", code)
	}
}

// daemonAt answers each question of a control socket with a version.
func daemonAt(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// What is unread when it closes would reset the connection.
			var question any
			_ = json.NewDecoder(conn).Decode(&question)
			_, _ = io.WriteString(conn, `{"id":0,"result":"ovs-vswitchd (Open vSwitch) 3.5.0","error":null}`)
			_ = conn.Close()
		}
	}()
	return l
}

// TestHealthOfAMember: a member that waits for the others is well, so that nobody asks whether it lives.
func TestHealthOfAMember(t *testing.T) {
	p := &probes{run: t.TempDir()}
	for _, part := range memberParts() {
		if err := p.live(t.Context(), part); err == nil || !strings.Contains(err.Error(), "waits for the others") {
			t.Errorf("%s: %v", part, err)
		}
		if err := p.ready(t.Context(), part); err == nil {
			t.Errorf("%s is ready without a socket", part)
		}
	}
}
