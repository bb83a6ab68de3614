package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// clientLife is how long the certificate of one connection of a controller is valid: a connection that lasts longer keeps it.
const clientLife = 24 * time.Hour

// ClientTLS is what a controller reaches the northbound database with: a certificate of its own that is made for this connection, and the
// central CAs, one of which must have signed the server's certificate, in a member's name. It is an error while the authorities are not
// known.
func (s *Signer) ClientTLS() (*tls.Config, error) {
	all := s.authorities.Load()
	if all == nil {
		return nil, errors.New("make a certificate for the databases: the authorities are not known yet (Secrets atoll-ca-central and atoll-ca-node)")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	authority := (*all)[Central]
	text, err := authority.Issue(Grant{CommonName: ControllerName}, key.Public(), s.config.Now(), clientLife)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("make a certificate for the databases: it is none")
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.Bundle())
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
		// A server is known by the name in its certificate, which is a member's; its address may be any.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies.
		VerifyConnection:   func(state tls.ConnectionState) error { return verifyMember(state, trusted) },
	}, nil
}

func verifyMember(state tls.ConnectionState, trusted *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the database's server has no certificate")
	}
	leaf, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: trusted, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("verify the database's server: %w", err)
	}
	if !strings.HasPrefix(leaf.Subject.CommonName, MemberPrefix) {
		return fmt.Errorf("verify the database's server: %q is no member", leaf.Subject.CommonName)
	}
	return nil
}
