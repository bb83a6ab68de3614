package central

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The files of a directory of certificates. centralCA is there for the southbound database, whose ca.crt has the nodes' CA too.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	caFile          = "ca.crt"
	centralCAFile   = "central-ca.crt"
)

// identity is this member's certificate, and whom it trusts.
type identity struct {
	certificate, key, ca []byte
	pair                 tls.Certificate
	// central has only the CAs that sign members and other clients with full rights.
	central *x509.CertPool
}

// readIdentity reads a directory. fs.ErrNotExist says that it is not complete yet.
func readIdentity(dir string, kind Kind) (*identity, error) {
	id := &identity{}
	var central []byte
	wanted, trusted := map[string]*[]byte{certificateFile: &id.certificate, keyFile: &id.key, caFile: &id.ca}, caFile
	if kind == Southbound {
		wanted[centralCAFile], trusted = &central, centralCAFile
	}
	for name, into := range wanted {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		*into = text
	}
	if kind == Northbound {
		central = id.ca
	}
	var err error
	if id.pair, err = tls.X509KeyPair(id.certificate, id.key); err != nil {
		return nil, fmt.Errorf("read certificates of %s: %w", dir, err)
	}
	id.central = x509.NewCertPool()
	if !id.central.AppendCertsFromPEM(central) {
		return nil, fmt.Errorf("read certificates of %s: %s has none", dir, trusted)
	}
	return id, nil
}

// awaitIdentity waits for a complete directory: another program asks for the certificates (package certs).
func awaitIdentity(ctx context.Context, dir string, kind Kind, note func(error)) (*identity, error) {
	for {
		id, err := readIdentity(dir, kind)
		if err == nil {
			return id, nil
		}
		note(err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func (id *identity) same(o *identity) bool {
	return bytes.Equal(id.certificate, o.certificate) && bytes.Equal(id.key, o.key) && bytes.Equal(id.ca, o.ca) && id.central.Equal(o.central)
}

// drops reports whether o trusts less: Open vSwitch takes over new CAs, but forgets none until it starts anew.
func (id *identity) drops(o *identity) bool {
	kept := map[string]bool{}
	for _, c := range blocks(o.ca) {
		kept[string(c)] = true
	}
	for _, c := range blocks(id.ca) {
		if !kept[string(c)] {
			return true
		}
	}
	return false
}

func blocks(text []byte) (out [][]byte) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return out
		}
		out, text = append(out, block.Bytes), rest
	}
}

// lay puts an identity where ovsdb-server reads it. Open vSwitch looks at the times of key and certificate, and misses a renewal
// of which it has seen one half: so that both change at once, by a link.
func (id *identity) lay(dir string) error {
	version := strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := os.MkdirAll(filepath.Join(dir, version), 0o700); err != nil {
		return fmt.Errorf("lay certificates: %w", err)
	}
	for name, text := range map[string][]byte{certificateFile: id.certificate, keyFile: id.key, caFile: id.ca} {
		if err := os.WriteFile(filepath.Join(dir, version, name), text, 0o600); err != nil {
			return fmt.Errorf("lay certificates: %w", err)
		}
	}
	current, next := filepath.Join(dir, "current"), filepath.Join(dir, "next")
	before, _ := os.Readlink(current)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lay certificates: %w", err)
	}
	if err := os.Symlink(version, next); err != nil {
		return fmt.Errorf("lay certificates: %w", err)
	}
	if err := os.Rename(next, current); err != nil {
		return fmt.Errorf("lay certificates: %w", err)
	}
	if before != "" && before == filepath.Base(before) {
		if err := os.RemoveAll(filepath.Join(dir, before)); err != nil {
			return fmt.Errorf("lay certificates: %w", err)
		}
	}
	return nil
}

// shows asks a port of this member, which wakes its server, whether it has taken the certificate over.
func (id *identity) shows(ctx context.Context, address string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, controlPatience)
	defer cancel()
	var shown []byte
	dialer := tls.Dialer{Config: &tls.Config{
		Certificates: []tls.Certificate{id.pair}, MinVersion: tls.VersionTLS12,
		// It is our own port, of which we want to see what it shows; nothing is said on this connection.
		InsecureSkipVerify: true, //nolint:gosec // See above.
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates[0].Raw
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false, fmt.Errorf("look at own certificate: %w", err)
	}
	_ = conn.Close()
	return bytes.Equal(shown, id.pair.Certificate[0]), nil
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
