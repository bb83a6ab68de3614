package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

func TestBridgeSocketIsBesideTheDatabase(t *testing.T) {
	t.Parallel()
	if got := bridgeSocket("unix:/var/run/openvswitch/db.sock", "br-int"); got != "/var/run/openvswitch/br-int.mgmt" {
		t.Errorf("got %s", got)
	}
}

// A database that is reached over TLS is not asked before the certificate is there, and the pod is told what the certificate waits for.
// Others need none.
func TestCertificateOfTheSouthboundDatabase(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		servers string
		asks    bool
	}{
		{"tcp:127.0.0.1:1,tcp:127.0.0.1:2", false},
		{"unix:/nowhere/ovnsb_db.sock", false},
		{"ssl:127.0.0.1:1,ssl:127.0.0.1:2", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			api := kubefake.NewClientset()
			s := &southbound{told: test.servers, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = s.keep(ctx, "n1", api)
			}()
			<-time.After(10 * lookForServers)
			if asked := len(api.Actions()) > 0; asked != test.asks {
				t.Errorf("%s: the API server is asked: %t", test.servers, asked)
			}
			if err := s.certified(); test.asks && (err == nil || !strings.Contains(err.Error(), "ConfigMap atoll-system/atoll-ca")) {
				t.Errorf("%s: it waits for %v", test.servers, err)
			}
			if test.asks {
				err := s.read(ctx, func(*ovsdb.Reader) error { return nil })
				told := (&Agent{node: "n1"}).unread(err)
				blames := strings.Contains(told.Message, "does not reach")
				if told.Reason != model.ReasonAgentBehind || !strings.Contains(told.Message, "ConfigMap atoll-system/atoll-ca") || blames {
					t.Errorf("the pod is told %+v", told)
				}
			}
			stop()
			<-done
		})
	}
}

// A database that answers and is refused, or refuses, is not one that is not reached.
func TestSouthboundRefuses(t *testing.T) {
	t.Parallel()
	central, node, strangers := authority(t, "central"), authority(t, "node"), authority(t, "central")
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	member := certs.Grant{CommonName: certs.MemberPrefix + "m", Server: true, Client: true, Addresses: loopback}
	for name, test := range map[string]struct {
		shows  *tls.Certificate
		trusts certs.Authority
		reason string
	}{
		"nobody listens":                   {nil, nil, model.ReasonSouthboundUnreachable},
		"a server of another authority":    {issue(t, strangers, member), node, model.ReasonSouthboundRefused},
		"a server that trusts another one": {issue(t, central, member), strangers, model.ReasonSouthboundRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &southbound{told: "ssl:" + listener.Addr().String(), dir: keepFiles(t, central, node), log: slog.New(slog.DiscardHandler)}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			keeper := certs.NewKeeper(certs.KeeperConfig{
				Client: kubefake.NewClientset(), Log: s.log, Signer: certs.SignerReader, Node: "n1", Dir: s.dir,
			})
			s.keeper.Store(keeper)
			go func() {
				defer close(done)
				_ = keeper.Run(ctx)
			}()
			defer func() {
				stop()
				<-done
			}()
			if test.shows == nil {
				_ = listener.Close()
			} else {
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(test.trusts.Bundle())
				go refuse(tls.NewListener(listener, &tls.Config{
					Certificates: []tls.Certificate{*test.shows}, MinVersion: tls.VersionTLS12,
					ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
				}))
				defer func() { _ = listener.Close() }()
			}
			<-keeper.Ready()
			err = s.read(ctx, func(*ovsdb.Reader) error { return errors.New("it is read") })
			if told := (&Agent{node: "n1"}).unread(err); err == nil || told.Reason != test.reason {
				t.Errorf("the pod is told %+v", told)
			}
		})
	}
}

// refuse shakes hands with whoever connects, and serves nobody.
func refuse(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.(*tls.Conn).Handshake()
		_ = conn.Close()
	}
}

func authority(t *testing.T, name string) certs.Authority {
	t.Helper()
	a, err := certs.NewAuthority(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, by certs.Authority, grant certs.Grant) *tls.Certificate {
	t.Helper()
	certificate, private := sign(t, by, grant)
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func sign(t *testing.T, by certs.Authority, grant certs.Grant) (certificate, private []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if certificate, err = by.Issue(grant, key.Public(), time.Now(), certs.MaxLife); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// keepFiles makes a directory as a Keeper leaves one to its successor.
func keepFiles(t *testing.T, central, node certs.Authority) string {
	t.Helper()
	dir := t.TempDir()
	certificate, private := sign(t, node, certs.Grant{CommonName: certs.ReaderPrefix + "n1", Client: true})
	for name, text := range map[string][]byte{
		certs.FileCertificate: certificate, certs.FileKey: private, certs.FileCentralCA: central.Bundle(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
