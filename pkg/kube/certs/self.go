package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// TLS is how the process that signs reaches OVN's databases. Each connection has a certificate of its own, which is signed as it
// is made; while the authorities are not known, there is none. A server is a member if the central authority has signed its
// certificate as a server's and its name is a member's: Open vSwitch has no host names.
func (s *Signer) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// VerifyConnection does all of it, for each connection, by the CAs of now.
		InsecureSkipVerify: true, //nolint:gosec // See there.
		VerifyConnection: func(state tls.ConnectionState) error {
			authority, err := s.central()
			if err != nil {
				return err
			}
			return verifyMember(state.PeerCertificates, authority.pool())
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.own() },
	}
}

// own is a certificate of this process as a client.
func (s *Signer) own() (*tls.Certificate, error) {
	authority, err := s.central()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	text, err := authority.Issue(Grant{CommonName: ControllerName, Client: true}, key.Public(), s.config.Now(), s.config.Life)
	if err != nil {
		return nil, err
	}
	all, err := readCertificates(text)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{all[0].Raw}, PrivateKey: key, Leaf: all[0]}, nil
}

func (s *Signer) central() (Authority, error) {
	if all := s.authorities.Load(); all != nil {
		return (*all)[Central], nil
	}
	if seen := s.seen.Load(); seen != nil {
		return *seen, nil
	}
	return nil, errors.New("the authorities are not known: this controller does not sign, or cannot read them")
}

// verifyMember is an error unless somebody is a member.
func verifyMember(shown []*x509.Certificate, central *x509.CertPool) error {
	if len(shown) == 0 {
		return errors.New("the server shows no certificate")
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: central, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("verify the server's certificate: %w", err)
	}
	if name := shown[0].Subject.CommonName; !strings.HasPrefix(name, MemberPrefix) {
		return fmt.Errorf("the server's certificate is of %q, not of a member", name)
	}
	return nil
}
