package chassis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSettings(t *testing.T) {
	c := Controller{Node: "n1", Tunnel: netip.MustParseAddr("fd00::1"), Datapath: Kernel}
	want := map[string]string{
		"system-id": "n1", "hostname": "n1", "ovn-remote": "ssl:10.0.0.1:6642", "ovn-encap-type": "geneve", "ovn-encap-ip": "fd00::1",
		"ovn-bridge-datapath-type": "system", "ovn-monitor-all": "false", "ovn-ofctrl-wait-before-clear": "4000",
	}
	if diff := cmp.Diff(want, c.settings("ssl:10.0.0.1:6642")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestNoPlaintext: nobody gets a connection without certificates by leaving a flag out. It ends before it waits for anything.
func TestNoPlaintext(t *testing.T) {
	err := Controller{Directories: Directories{Switch: t.TempDir(), OVN: t.TempDir()}}.Run(t.Context(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, errPlain) {
		t.Errorf("%v", err)
	}
}

func TestWaitForCertificates(t *testing.T) {
	c := Controller{Certificates: t.TempDir()}
	var said strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) { said.Write(p); cancel() }), nil))
	if err := c.waitForCertificates(ctx, log); !errors.Is(err, context.Canceled) {
		t.Errorf("without files: %v", err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if !strings.Contains(said.String(), name) {
			t.Errorf("nobody is told that it waits for %s: %s", name, said.String())
		}
		if err := os.WriteFile(filepath.Join(c.Certificates, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.waitForCertificates(t.Context(), log); err != nil {
		t.Errorf("with all files: %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestDatapathFlag(t *testing.T) {
	for text, want := range map[string]Datapath{"kernel": "system", "userspace": "netdev"} {
		var got Datapath
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
		if back, _ := got.MarshalText(); string(back) != text {
			t.Errorf("%s is told as %s", got, back)
		}
	}
	if err := new(Datapath).UnmarshalText([]byte("netdev")); err == nil {
		t.Error("netdev is a value")
	}
}

// TestAsk: a daemon that refuses, and one that does not answer, are errors.
func TestAsk(t *testing.T) {
	dir, err := os.MkdirTemp("", "ask")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "ctl")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	answers := make(chan string, 1)
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if answer := <-answers; answer != "" {
				_, _ = conn.Write([]byte(answer))
			}
			defer conn.Close()
		}
	}()
	answers <- `{"id":0,"result":"3.5.0\n","error":null}`
	if got, err := ask(t.Context(), socket, "version"); err != nil || got != "3.5.0" {
		t.Errorf("%q, %v", got, err)
	}
	answers <- `{"id":0,"result":null,"error":"no such command\n"}`
	if _, err := ask(t.Context(), socket, "x"); !errors.Is(err, errDaemon) || !strings.Contains(err.Error(), "no such command") {
		t.Errorf("a refusal: %v", err)
	}
	answers <- ""
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, socket, "x"); err == nil {
		t.Error("silence is an answer")
	}
}
