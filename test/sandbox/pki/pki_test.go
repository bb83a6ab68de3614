package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestIssuedCertificates(t *testing.T) {
	authority, err := New(filepath.Join(t.TempDir(), "pki"), "test")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.pem)
	for name, c := range map[string]struct {
		id   Identity
		ok   []x509.ExtKeyUsage
		fail []x509.ExtKeyUsage
		host string
	}{
		"client": {
			id:   Identity{User: "system:node:n1", Groups: []string{"system:nodes"}},
			ok:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			fail: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"server": {
			id:   Identity{User: "s", Names: []string{"kubernetes"}, Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.1")}},
			ok:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			host: "10.96.0.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := authority.Issue(name, c.id)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
			if err != nil {
				t.Fatal(err)
			}
			leaf := loaded.Leaf
			if leaf.Subject.CommonName != c.id.User || len(leaf.Subject.Organization) != len(c.id.Groups) {
				t.Errorf("the certificate names %s, want %+v", leaf.Subject, c.id)
			}
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: c.ok, DNSName: c.host}); err != nil {
				t.Errorf("it does not serve: %v", err)
			}
			for _, usage := range c.fail {
				if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err == nil {
					t.Errorf("it serves for usage %v", usage)
				}
			}
			info, err := os.Stat(pair.Key)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode of the key is %v (%v), want 0600", info.Mode(), err)
			}
		})
	}
}

func TestKubeconfig(t *testing.T) {
	authority, err := New(filepath.Join(t.TempDir(), "pki"), "test")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin")
	if err := authority.Kubeconfig(path, "https://172.30.0.1:6443",
		"admin", Identity{User: "admin", Groups: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://172.30.0.1:6443" || len(config.CAData) == 0 {
		t.Errorf("configuration is for %s", config.Host)
	}
	if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
		t.Errorf("certificate and key do not belong together: %v", err)
	}
}
