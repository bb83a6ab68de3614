package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Names of the files in a directory that Keep looks after.
const (
	// FileKey is the private key and FileCertificate its certificate.
	FileKey         = "tls.key"
	FileCertificate = "tls.crt"
	// FileCA is the CAs that the process trusts.
	FileCA = "ca.crt"
	// FileCentralCA is the central CAs alone.
	FileCentralCA = "central-ca.crt"
	// FileAgentCA is the CAs of agents, for atoll-inspect alone.
	FileAgentCA = "agent-ca.crt"

	// current is a link to the directory that holds the files; the files' own names are links through it.
	current = "..current"
)

// files are what a directory holds.
type files map[string][]byte

// writeFiles replaces all files of a directory at once: nobody ever sees a key and a certificate that do not belong together, whatever ends
// this process meanwhile. Open vSwitch's daemons read a pair again only when the times of both files have changed (stream-ssl.c), so both
// are always written anew.
func writeFiles(dir string, all files) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	fresh, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(fresh)
		}
	}()
	for name, text := range all {
		if err := writeSynced(filepath.Join(fresh, name), text); err != nil {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, current))
	if err := relink(filepath.Base(fresh), filepath.Join(dir, current)); err != nil {
		return err
	}
	for name := range all {
		target := filepath.Join(current, name)
		if have, err := os.Readlink(filepath.Join(dir, name)); err == nil && have == target {
			continue
		}
		if err := relink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if old != "" && filepath.Base(old) == old {
		_ = os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

func writeSynced(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// relink replaces whatever is at path, at once.
func relink(target, path string) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old link: %w", err)
	}
	if err := os.Symlink(target, fresh); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("put link in its place: %w", err)
	}
	return nil
}

// readFiles reads a key and its certificate, as a predecessor has left them.
func readFiles(dir string) (*pair, error) {
	certificate, err := os.ReadFile(filepath.Join(dir, FileCertificate))
	if err != nil {
		return nil, err
	}
	private, err := os.ReadFile(filepath.Join(dir, FileKey))
	if err != nil {
		return nil, err
	}
	return readPair(certificate, private)
}

// pair is a key with its certificate.
type pair struct {
	certificate, private []byte
	leaf                 *x509.Certificate
	key                  *ecdsa.PrivateKey
}

func readPair(certificate, private []byte) (*pair, error) {
	all, err := readCertificates(certificate)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(private)
	if block == nil {
		return nil, errors.New("read key: there is none")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(all[0].PublicKey) {
		return nil, errors.New("read key: it is not the certificate's")
	}
	return &pair{certificate, private, all[0], key}, nil
}

// signedBy says whether one of a bundle's CAs has signed it and it is valid.
func (p *pair) signedBy(bundle []byte, now time.Time) bool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return false
	}
	_, err := p.leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: p.leaf.ExtKeyUsage})
	return err == nil
}
