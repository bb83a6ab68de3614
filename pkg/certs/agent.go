package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// AgentServer is for the server of a node's agent. It shows what Keep has put into a directory, read anew for each connection, and admits controllers
// alone: clients whose certificate the central authority has signed for them. Members, nodes and whoever has none are refused.
func AgentServer(dir string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return readKept(dir) },
		// VerifyConnection does the rest, by the CAs of now.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			central, err := readCentral(dir)
			if err != nil {
				return err
			}
			return verifyController(state.PeerCertificates, central)
		},
		// Each connection is judged anew.
		SessionTicketsDisabled: true,
	}
}

// Reader is for an agent that reads the southbound database. It shows what Keep has put into a directory, and takes a server for a member
// if the central authority has signed its certificate as a member's. The files are read anew for each connection.
func Reader(dir string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// VerifyConnection does all of it, for each connection, by the CAs of now: members' certificates have no host names.
		InsecureSkipVerify: true, //nolint:gosec // See there.
		VerifyConnection: func(state tls.ConnectionState) error {
			central, err := readCentral(dir)
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

// readCentral reads the central authority's CAs that Keep has put into a directory.
func readCentral(dir string) (*x509.CertPool, error) {
	text, err := os.ReadFile(filepath.Join(dir, FileCentralCA))
	if err != nil {
		return nil, fmt.Errorf("read the central authority's certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("read the central authority's certificates: there is none")
	}
	return pool, nil
}

// verifyController is an error unless somebody is a controller.
func verifyController(shown []*x509.Certificate, central *x509.CertPool) error {
	if len(shown) == 0 {
		return errors.New("the client shows no certificate")
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: central, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("verify the client's certificate: %w", err)
	}
	if name := shown[0].Subject.CommonName; name != ControllerName {
		return fmt.Errorf("the client's certificate is of %q, not of a controller", name)
	}
	return nil
}

// AgentClient is how a controller reaches the agent of a node at an address of the node: nobody else is taken for it.
func (s *Signer) AgentClient(node string) func(netip.Addr) *tls.Config {
	return func(address netip.Addr) *tls.Config { return s.agentClient(node, address) }
}

func (s *Signer) agentClient(node string, address netip.Addr) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// VerifyConnection does all of it, for each connection, by the CAs of now.
		InsecureSkipVerify: true, //nolint:gosec // See there.
		VerifyConnection: func(state tls.ConnectionState) error {
			agents, err := s.agents()
			if err != nil {
				return err
			}
			return verifyAgent(state.PeerCertificates, agents, node, address)
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.own() },
	}
}

// agents are the CAs of agents.
func (s *Signer) agents() (*x509.CertPool, error) {
	if all := s.authorities.Load(); all != nil {
		return (*all)[Agent].pool(), nil
	}
	if seen := s.seenAgents.Load(); seen != nil {
		return seen, nil
	}
	return nil, errors.New("the authority of agents is not known yet")
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
