package certs

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

// TestServerTLS: a server's certificate is for its names and for nothing else, is kept for half of its life, and is made anew when another CA signs.
func TestServerTLS(t *testing.T) {
	t.Parallel()
	now := epoch
	s := NewSigner(SignerConfig{Now: func() time.Time { return now }, Life: 24 * time.Hour})
	config := s.ServerTLS("atoll-inspect", "atoll-inspect.atoll-system.svc")
	if _, err := config.GetCertificate(nil); err == nil || s.CentralBundle() != nil {
		t.Fatal("there is a certificate before there is an authority")
	}
	authority := newAuthority(t, string(Central), now)
	s.seen.Store(&authority)
	shown := func() *x509.Certificate {
		t.Helper()
		c, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(s.CentralBundle())
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "atoll-inspect.atoll-system.svc", CurrentTime: now}); err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	first := shown()
	if !slices.Equal(first.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("it may be used for %v", first.ExtKeyUsage)
	}
	if err := verifyMember([]*x509.Certificate{first}, authority.pool()); err == nil {
		t.Error("it is taken for a member's")
	}
	now = now.Add(11 * time.Hour)
	if !shown().Equal(first) {
		t.Error("another is made before half of its life")
	}
	now = now.Add(2 * time.Hour)
	second := shown()
	if second.Equal(first) {
		t.Error("it is shown past half of its life")
	}
	// Somebody has deleted the Secret: nobody trusts the CA of before.
	anew := newAuthority(t, string(Central), now)
	s.seen.Store(&anew)
	if shown().Equal(second) {
		t.Error("it is shown although another CA signs")
	}
}
