package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"net/netip"
	"testing"
	"time"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB, name string, now time.Time) Authority {
	t.Helper()
	authority, err := NewAuthority(name, now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func issue(t testing.TB, a Authority, g Grant, now time.Time, life time.Duration) *x509.Certificate {
	t.Helper()
	text, err := a.Issue(g, newKey(t).Public(), now, life)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readCertificates(text)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func valid(leaf *x509.Certificate, bundle []byte, now time.Time, usage x509.ExtKeyUsage) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

// In twelve years, with a new CA wanted now and then: whatever certificate has not ended is trusted, each CA was published a day before it
// signs, and CAs of which nothing is valid go.
func TestRotation(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t, "node", epoch)
	first := authority[0]
	published := map[string]time.Time{string(first.Certificate.Raw): epoch}
	var issued []*x509.Certificate
	signers, needed, most := map[string]bool{}, 0, 0
	wishes := map[int]bool{400: true}
	for day := 0; day < 12*365; day += step(day, wishes) {
		now := epoch.Add(time.Duration(day) * 24 * time.Hour)
		var err error
		if authority, _, err = authority.Next("node", now, wishes[day]); err != nil {
			t.Fatal(err)
		}
		if wishes[day] {
			// The one that was wished for waits for its turn: another wish makes no other.
			if _, changed, err := authority.Next("node", now.Add(time.Hour), true); changed || err != nil {
				t.Errorf("a second wish makes another CA: %v", err)
			}
		}
		for _, ca := range authority {
			if _, known := published[string(ca.Certificate.Raw)]; !known {
				published[string(ca.Certificate.Raw)] = now
			}
		}
		signing := authority.Signing(now)
		signers[string(signing.Certificate.Raw)] = true
		if since := now.Sub(published[string(signing.Certificate.Raw)]); signing != first && since < overlap {
			t.Fatalf("day %d: a CA signs %s after it was published", day, since)
		}
		if day%25 == 0 {
			issued = append(issued, issue(t, authority, Grant{CommonName: "n", Client: true}, now, MaxLife))
		}
		bundle, newest := authority.Bundle(), authority[len(authority)-1:].Bundle()
		kept := issued[:0]
		for _, leaf := range issued {
			if now.After(leaf.NotAfter) {
				continue
			}
			kept = append(kept, leaf)
			if err := valid(leaf, bundle, now, x509.ExtKeyUsageClientAuth); err != nil {
				t.Fatalf("day %d: a certificate that has not ended is not trusted: %v", day, err)
			}
			if valid(leaf, newest, now, x509.ExtKeyUsageClientAuth) != nil {
				needed++
			}
		}
		issued = kept
		most = max(most, len(authority))
	}
	// One that was wished for, and 5 years each make two more.
	if len(signers) != 4 {
		t.Errorf("%d CAs have signed, want 4", len(signers))
	}
	if most != 2 || len(authority) != 1 {
		t.Errorf("%d CAs at most and %d at the end, want 2 and 1", most, len(authority))
	}
	if needed == 0 {
		t.Error("the control: no certificate has ever needed an older CA")
	}
}

// step is the number of days until something is looked at again: one while there is something to see.
func step(day int, wishes map[int]bool) int {
	if wishes[day] || wishes[day+1] || day%365 == 0 {
		return 1
	}
	return min(5-day%5, 365-day%365)
}

func TestAuthorityIsReadAsWritten(t *testing.T) {
	t.Parallel()
	authority, changed, err := newAuthority(t, "node", epoch).Next("node", epoch.Add(time.Hour), true)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	certificates, keys, err := authority.encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := decodeAuthority(certificates, keys)
	if err != nil || !bytes.Equal(read.Bundle(), authority.Bundle()) {
		t.Fatal("read something else", err)
	}
	_, foreign, err := newAuthority(t, "node", epoch).encode()
	if err != nil {
		t.Fatal(err)
	}
	half := len(keys) / 2
	for what, text := range map[string][2][]byte{
		"nothing":           {nil, nil},
		"too few keys":      {certificates, keys[:half]},
		"too many keys":     {certificates[:len(certificates)/2+20], append(keys, foreign...)},
		"foreign keys":      {certificates, append(foreign, foreign...)},
		"another order":     {append(authority[1:].Bundle(), authority[:1].Bundle()...), append(keys[half:], keys[:half]...)},
		"keys, no PEM":      {certificates, []byte("key")},
		"a key among certs": {keys, keys},
	} {
		if a, err := decodeAuthority(text[0], text[1]); err == nil {
			t.Errorf("%s is read as an authority of %d CAs", what, len(a))
		}
	}
}

func TestWhatIsIssued(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t, "central", epoch)
	address := netip.MustParseAddr("192.0.2.1")
	member := issue(t, authority, Grant{CommonName: "m", Addresses: []netip.Addr{address}, Server: true, Client: true}, epoch,
		365*24*time.Hour)
	if !member.NotAfter.Equal(epoch.Add(MaxLife)) {
		t.Errorf("it ends at %s, want %s after it was made", member.NotAfter, MaxLife)
	}
	if member.IsCA || len(member.IPAddresses) != 1 || member.IPAddresses[0].String() != address.String() {
		t.Errorf("CA: %t, addresses %v", member.IsCA, member.IPAddresses)
	}
	node := issue(t, authority, Grant{CommonName: "n", Client: true}, epoch, time.Hour)
	for _, test := range []struct {
		what  string
		leaf  *x509.Certificate
		usage x509.ExtKeyUsage
		good  bool
	}{
		{"a member as a server", member, x509.ExtKeyUsageServerAuth, true},
		{"a member as a client", member, x509.ExtKeyUsageClientAuth, true},
		{"a node as a client", node, x509.ExtKeyUsageClientAuth, true},
		{"a node as a server", node, x509.ExtKeyUsageServerAuth, false},
	} {
		if err := valid(test.leaf, authority.Bundle(), epoch, test.usage); (err == nil) != test.good {
			t.Errorf("%s: %v", test.what, err)
		}
	}
	end := authority[0].Certificate.NotAfter
	if late := issue(t, authority, Grant{CommonName: "l", Client: true}, end.Add(-time.Hour), MaxLife); !late.NotAfter.Equal(end) {
		t.Errorf("a certificate outlives its CA: %s after %s", late.NotAfter, end)
	}
	if _, err := authority.Issue(Grant{CommonName: "l", Client: true}, newKey(t).Public(), end, MaxLife); err == nil {
		t.Error("a CA signs after its end")
	}
}
