package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstReadEvery is how often the central authority is looked for by a controller that waits, until there is one.
const firstReadEvery = 2 * time.Second

// Follow reads the central authority, and by which CAs agents are known, until ctx ends, and writes nothing: for a controller that waits to lead, which serves others and asks
// databases all the same. It lasts through whatever goes wrong.
func (s *Signer) Follow(ctx context.Context) {
	for {
		wait := rereadEvery
		if err := s.see(ctx); err != nil {
			// While it is not there nobody leads, who says it.
			s.config.Log.Debug("the central authority cannot be read", "error", err)
			wait = firstReadEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *Signer) see(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	secret, err := s.config.Client.CoreV1().Secrets(Namespace).Get(ctx, Central.Secret(), meta.GetOptions{})
	if err != nil {
		return fmt.Errorf("read authority %s: %w", Central, err)
	}
	authority, err := decodeAuthority(secret.Data[secretCertificates], secret.Data[secretKeys])
	if err != nil {
		return fmt.Errorf("read authority %s: %w", Central, err)
	}
	s.seen.Store(&authority)
	bundle, err := s.config.Client.CoreV1().ConfigMaps(Namespace).Get(ctx, ConfigMapName, meta.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", Namespace, ConfigMapName, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(bundle.Data[KeyAgent])) {
		return fmt.Errorf("read ConfigMap %s/%s: it has no %s", Namespace, ConfigMapName, KeyAgent)
	}
	s.seenAgents.Store(pool)
	return nil
}

// CentralBundle is what verifies certificates of the central authority, in PEM; nil while it is not known.
func (s *Signer) CentralBundle() []byte {
	authority, err := s.central()
	if err != nil {
		return nil
	}
	return authority.Bundle()
}

// ServerTLS is for a server of this process that is called by names. Its certificate is signed by the central authority when somebody connects,
// and made anew when half of its life is over or another CA signs. It is a server's only, and no member's.
func (s *Signer) ServerTLS(commonName string, names ...string) *tls.Config {
	server := &served{signer: s, grant: Grant{CommonName: commonName, Names: names, Server: true}}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return server.certificate() }}
}

// served is the certificate of a server.
type served struct {
	signer *Signer
	grant  Grant

	mu   sync.Mutex
	have *tls.Certificate
	// signing is the CA that has signed it, until when it is shown.
	signing []byte
	until   time.Time
}

func (s *served) certificate() (*tls.Certificate, error) {
	authority, err := s.signer.central()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.signer.config.Now()
	signing := authority.Signing(now).Certificate.Raw
	if s.have != nil && bytes.Equal(s.signing, signing) && now.Before(s.until) {
		return s.have, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	text, err := authority.Issue(s.grant, key.Public(), now, s.signer.config.Life)
	if err != nil {
		return nil, err
	}
	all, err := readCertificates(text)
	if err != nil {
		return nil, err
	}
	_, life := lifeOf(all[0])
	s.have = &tls.Certificate{Certificate: [][]byte{all[0].Raw}, PrivateKey: key, Leaf: all[0]}
	s.signing, s.until = signing, now.Add(life/2)
	return s.have, nil
}
