// Package pki makes the certificates, keys and client configurations of one cluster.
//
// In flows an Authority, new or read back from its directory; out flow PEM files and kubeconfigs. Everything
// is signed by the one authority of the sandbox and lives and goes with the sandbox's state; keys are readable
// by root only.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// lifetime of the authority and of all it signs: longer than any sandbox lives.
const lifetime = 5 * 365 * 24 * time.Hour

// Authority signs certificates and writes them into its directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// Pair is a certificate and its key, as files.
type Pair struct{ Cert, Key string }

// Identity is whom a certificate names. As a client: User and Groups are the Kubernetes user and its groups.
// As a server: Names and Addresses are where it is reached.
type Identity struct {
	User      string
	Groups    []string
	Names     []string
	Addresses []netip.Addr
}

// New makes an authority with its directory.
func New(dir, name string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make certificate directory: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse authority: %w", err)
	}
	a := &Authority{dir: dir, cert: cert, key: key, pem: encode("CERTIFICATE", der)}
	pair := a.Pair("ca")
	if err := writeKey(pair.Key, key); err != nil {
		return nil, err
	}
	return a, write(pair.Cert, a.pem, 0o644)
}

// Pair tells the files of the certificate of a name, which need not exist yet.
func (a *Authority) Pair(name string) Pair {
	return Pair{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
}

// Issue makes a key and a certificate for an identity and writes both under the name. It serves clients, and
// servers too if the identity has a name or an address.
func (a *Authority) Issue(name string, id Identity) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.User, Organization: id.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    id.Names,
	}
	for _, address := range id.Addresses {
		template.IPAddresses = append(template.IPAddresses, address.AsSlice())
	}
	if len(id.Names)+len(id.Addresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	pair := a.Pair(name)
	if err := writeKey(pair.Key, key); err != nil {
		return Pair{}, err
	}
	return pair, write(pair.Cert, encode("CERTIFICATE", der), 0o644)
}

// IssueKey makes a key pair without a certificate, for signing tokens. Cert is the public key.
func (a *Authority) IssueKey(name string) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("encode public key %s: %w", name, err)
	}
	pair := Pair{Cert: filepath.Join(a.dir, name+".pub"), Key: filepath.Join(a.dir, name+".key")}
	if err := writeKey(pair.Key, key); err != nil {
		return Pair{}, err
	}
	return pair, write(pair.Cert, encode("PUBLIC KEY", public), 0o644)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // a clock that is set back a little does no harm
	template.NotAfter = template.NotBefore.Add(lifetime)
	return x509.CreateCertificate(rand.Reader, template, parent, public, key)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", path, err)
	}
	return write(path, encode("PRIVATE KEY", der), 0o600)
}

func write(path string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
