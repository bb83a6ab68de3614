package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// AgentServer is for the server of a node's agent. It shows what Keep has put into a directory, read anew for each connection,
// and admits atoll-inspect alone, and controllers of the version before: clients whose certificate the central authority has
// signed for them. Members, nodes and whoever has none are refused; so is atoll-inspect of a node that shutOut reports.
func AgentServer(dir string, shutOut func(node string) bool) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return readKept(dir) },
		// VerifyConnection does the rest, by the CAs of now.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			central, err := readBundle(dir, FileCentralCA)
			if err != nil {
				return err
			}
			return verifyInspection(state.PeerCertificates, central, shutOut)
		},
		// Each connection is judged anew.
		SessionTicketsDisabled: true,
	}
}

// Reader is for an agent that reads the southbound database, and for atoll-inspect. It shows what Keep has put into a directory,
// and takes a server for a member if the central authority has signed its certificate as a member's. The files are read anew for
// each connection.
func Reader(dir string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// VerifyConnection does all of it, for each connection, by the CAs of now: members' certificates have no host names.
		InsecureSkipVerify: true, //nolint:gosec // See there.
		VerifyConnection: func(state tls.ConnectionState) error {
			central, err := readBundle(dir, FileCentralCA)
			if err != nil {
				return err
			}
			return verifyMember(state.PeerCertificates, central)
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return readKept(dir) },
	}
}

// readKept reads the certificate that Keep has put into a directory.
func readKept(dir string) (*tls.Certificate, error) {
	have, err := readFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("there is no certificate yet: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{have.leaf.Raw}, PrivateKey: have.key, Leaf: have.leaf}, nil
}

// readBundle reads CAs that Keep has put into a directory.
func readBundle(dir, name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("read authority's certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authority's certificates: there is none in %s", name)
	}
	return pool, nil
}

// verifyInspection is an error unless somebody is atoll-inspect of a node that is not shut out, or a controller of the version before.
func verifyInspection(shown []*x509.Certificate, central *x509.CertPool, shutOut func(node string) bool) error {
	if len(shown) == 0 {
		return errors.New("the client shows no certificate")
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: central, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("verify the client's certificate: %w", err)
	}
	name := shown[0].Subject.CommonName
	if name == ControllerName {
		return nil
	}
	node, is := strings.CutPrefix(name, InspectPrefix)
	if !is || node == "" {
		return fmt.Errorf("the client's certificate is of %q, not of atoll-inspect", name)
	}
	if shutOut(node) {
		return fmt.Errorf("the client's certificate is of atoll-inspect on node %q, which is shut out", node)
	}
	return nil
}

// InspectServer is for what atoll-inspect serves to the API server. It shows what Keep has put into a directory, read anew for
// each connection.
func InspectServer(dir string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return readKept(dir) },
	}
}

// AgentClient is how atoll-inspect reaches the agent of a node at an address of the node, by what Keep has put into a directory:
// nobody else is taken for the agent.
func AgentClient(dir, node string) func(netip.Addr) *tls.Config {
	return func(address netip.Addr) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS13,
			// VerifyConnection does all of it, for each connection, by the CAs of now.
			InsecureSkipVerify: true, //nolint:gosec // See there.
			VerifyConnection: func(state tls.ConnectionState) error {
				agents, err := readBundle(dir, FileAgentCA)
				if err != nil {
					return err
				}
				return verifyAgent(state.PeerCertificates, agents, node, address)
			},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return readKept(dir) },
		}
	}
}

// verifyAgent is an error unless somebody is the agent of a node.
func verifyAgent(shown []*x509.Certificate, agents *x509.CertPool, node string, address netip.Addr) error {
	if len(shown) == 0 {
		return errors.New("the agent shows no certificate")
	}
	leaf := shown[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: agents, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("verify the agent's certificate: %w", err)
	}
	if name := leaf.Subject.CommonName; name != node {
		return fmt.Errorf("the certificate is of the agent of node %q, not of %q", name, node)
	}
	if err := leaf.VerifyHostname(address.String()); err != nil {
		return fmt.Errorf("verify the agent's certificate: %w", err)
	}
	return nil
}
