package certs

import (
	"crypto/x509"
	"testing"
	"time"
)

// TestInspectBundle: the API server believes atoll-inspect, and controllers of the version before, by the names of the Service,
// and neither an agent nor a member, whose certificates have addresses alone.
func TestInspectBundle(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := NewSigner(SignerConfig{})
	if s.InspectBundle() != nil {
		t.Fatal("there are CAs before there is an authority")
	}
	all := Authorities{
		Central: newAuthority(t, string(Central), now), Node: newAuthority(t, string(Node), now), Agent: newAuthority(t, string(Agent), now),
	}
	s.authorities.Store(&all)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.InspectBundle())
	inspection := grantOf(SignerInspectServer, "n1")
	for _, test := range []struct {
		name     string
		kind     Kind
		grant    Grant
		believed bool
	}{
		{"atoll-inspect", Agent, inspection, true},
		{"a controller of the version before", Central, inspection, true},
		{"one with a node's authority", Node, inspection, false},
		{"an agent", Agent, grantOf(SignerAgent, "n1"), false},
		{"a member", Central, grantOf(SignerCentral, "n1"), false},
		{"a client", Central, grantOf(SignerInspect, "n1"), false},
	} {
		shown, _ := show(t, all[test.kind], test.grant)
		for _, name := range inspectNames() {
			_, err := shown.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name})
			if (err == nil) != test.believed {
				t.Errorf("%s is believed as %s: %v", test.name, name, err)
			}
		}
		// Nobody takes any of them but a member for a database.
		if err := verifyMember([]*x509.Certificate{shown.Leaf}, all[Central].pool()); (err == nil) != (test.name == "a member") {
			t.Errorf("%s is taken for a member: %v", test.name, err)
		}
	}
}
