package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/kube/certs"
)

// TestOptions: who does not say where it is, or for whom its certificates are, is told so at once.
func TestOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]options{
		"--node-name": {address: "192.0.2.1"}, "--inspect-address": {node: "n1"}, "": {node: "n1", address: "192.0.2.1"},
	} {
		if err := o.check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// TestGoesOnWithWhatIsKept: a process that starts anew is ready with the certificate that its predecessor has left, though
// neither the API server nor a controller answers; without it, it is not, and says for what it waits.
func TestGoesOnWithWhatIsKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	authority, err := certs.NewAuthority("agent", now)
	if err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]bool{"with it": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{node: "n1", address: "127.0.0.1", certificates: t.TempDir()}
			if kept {
				leave(t, authority, o.dir(serving), now)
			}
			// Nobody listens there.
			p, err := newProgram(&rest.Config{Host: "https://127.0.0.1:1"}, o, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			running.Go(func() { _ = p.serves.Run(ctx) })
			if kept {
				<-p.serves.Ready()
			}
			if err := p.ready(); (err == nil) != kept || err != nil && !strings.Contains(err.Error(), "certificate") {
				t.Errorf("ready: %v", err)
			}
			all, err := p.registry().Gather()
			if err != nil {
				t.Fatal(err)
			}
			said := map[string]float64{}
			for _, family := range all {
				said[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
			}
			if said["atoll_inspect_ready"] == 1 != kept || said["atoll_certificate_expiry_seconds"] > 0 != kept {
				t.Errorf("its metrics say %v", said)
			}
			if kept {
				believed(t, authority, certs.InspectServer(o.dir(serving)))
			}
		})
	}
}

// leave puts a certificate where a predecessor has left it.
func leave(t *testing.T, authority certs.Authority, dir string, now time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host := certs.InspectName + "." + certs.Namespace + ".svc"
	text, err := authority.Issue(certs.Grant{CommonName: certs.InspectName, Names: []string{host, host + ".cluster.local"}, Server: true},
		key.Public(), now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		certs.FileCertificate: text, certs.FileKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// believed has an API server call by the Service's name.
func believed(t *testing.T, authority certs.Authority, server *tls.Config) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Bundle())
	// A pipe holds no ticket that nobody reads.
	server.SessionTicketsDisabled = true
	here, there := net.Pipe()
	defer func() { _ = here.Close(); _ = there.Close() }()
	served := make(chan error, 1)
	go func() { served <- tls.Server(there, server).HandshakeContext(context.WithoutCancel(t.Context())) }()
	client := tls.Client(here, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "atoll-inspect.atoll-system.svc"})
	if err := client.HandshakeContext(t.Context()); err != nil {
		t.Errorf("the API server does not believe it: %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
