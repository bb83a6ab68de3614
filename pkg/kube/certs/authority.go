package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// MaxLife is how long a certificate of a member, node or controller is valid at most, and unless somebody wants less.
	MaxLife = 90 * 24 * time.Hour
	// MinLife is the least: the API server's for expirationSeconds.
	MinLife = 10 * time.Minute
	// authorityLife is how long an authority's certificate is valid.
	authorityLife = 5 * 365 * 24 * time.Hour
	// overlap is how long an authority's certificate is published before it signs. A program that is switched off for longer reads the
	// bundle before it connects again.
	overlap = 24 * time.Hour
	// skew is how far clocks of machines may differ: certificates are valid from a little before they are made.
	skew = 5 * time.Minute
)

// CA is a certificate that signs others, and its key.
type CA struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// made is when it was made, and published.
func (c CA) made() time.Time { return c.Certificate.NotBefore.Add(skew) }

// Authority is the CAs of one purpose, the oldest first: those that once signed, the one that signs, and the one that will. Which
// of them is what, their age says.
type Authority []CA

// NewAuthority has one CA, which signs at once.
func NewAuthority(name string, now time.Time) (Authority, error) {
	ca, err := newCA(name, now)
	if err != nil {
		return nil, err
	}
	return Authority{ca}, nil
}

// pool is the certificates of all its CAs.
func (a Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range a {
		pool.AddCert(ca.Certificate)
	}
	return pool
}

// Next is the authority at a later time: with a new CA if the newest ends soon, or one is wanted; and without those of which
// nothing can be valid any more. It says whether anything is different.
func (a Authority) Next(name string, now time.Time, wanted bool) (Authority, bool, error) {
	next := make(Authority, 0, len(a)+1)
	for i, ca := range a {
		// Its successor has signed since the overlap's end, and what the last certificate of this one was valid for is over.
		if i+1 < len(a) && now.After(a[i+1].made().Add(overlap+MaxLife+skew)) {
			continue
		}
		next = append(next, ca)
	}
	changed := len(next) != len(a)
	newest := a[len(a)-1]
	// Two at most: one that waits for its turn is not followed by another.
	waits := len(a) > 1 && now.Before(newest.made().Add(overlap))
	if (wanted && !waits) || now.After(newest.Certificate.NotAfter.Add(-2*MaxLife-overlap)) {
		ca, err := newCA(name, now)
		if err != nil {
			return nil, false, err
		}
		next, changed = append(next, ca), true
	}
	return next, changed, nil
}

// Signing is the CA that signs now: the newest that was published long enough ago, else the oldest.
func (a Authority) Signing(now time.Time) CA {
	for i := len(a) - 1; i > 0; i-- {
		if !now.Before(a[i].made().Add(overlap)) {
			return a[i]
		}
	}
	return a[0]
}

// Bundle is the certificates of all CAs, in PEM.
func (a Authority) Bundle() []byte {
	var bundle []byte
	for _, ca := range a {
		bundle = append(bundle, encodeCertificate(ca.Certificate.Raw)...)
	}
	return bundle
}

// Issue makes a certificate for a key. It is valid for life, at most MaxLife, and no longer than the CA that signs it.
func (a Authority) Issue(g Grant, key crypto.PublicKey, now time.Time, life time.Duration) (certificate []byte, err error) {
	ca := a.Signing(now)
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	end := now.Add(min(life, MaxLife))
	if end.After(ca.Certificate.NotAfter) {
		end = ca.Certificate.NotAfter
	}
	if !end.After(now) {
		return nil, fmt.Errorf("sign certificate of %s: the authority's own ended at %s", g.CommonName,
			ca.Certificate.NotAfter.Format(time.RFC3339))
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: g.CommonName}, NotBefore: now.Add(-skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: g.Names, BasicConstraintsValid: true,
	}
	if g.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if g.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if len(template.ExtKeyUsage) == 0 {
		// One without any would be good for everything.
		return nil, fmt.Errorf("sign certificate of %s: it is neither a server's nor a client's", g.CommonName)
	}
	for _, address := range g.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, key, ca.Key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", g.CommonName, err)
	}
	return encodeCertificate(der), nil
}

func newCA(name string, now time.Time) (CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return CA{}, fmt.Errorf("make key of authority %s: %w", name, err)
	}
	serial, err := newSerial()
	if err != nil {
		return CA{}, err
	}
	// Each has a name of its own, so that nobody who looks up issuers by name takes one for another.
	subject := fmt.Sprintf("atoll-ca-%s %s", name, hex.EncodeToString(serial.Bytes()[:4]))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: subject}, NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return CA{}, fmt.Errorf("make certificate of authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return CA{}, fmt.Errorf("read certificate of authority %s: %w", name, err)
	}
	return CA{certificate, key}, nil
}

// newSerial is 16 random bytes, of which the first is not zero.
func newSerial() (*big.Int, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	raw[0] = raw[0]&0x3f | 0x40
	return new(big.Int).SetBytes(raw), nil
}

const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
	blockRequest     = "CERTIFICATE REQUEST"
)

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

// encode writes certificates and keys, each in the same order.
func (a Authority) encode() (certificates, keys []byte, err error) {
	for _, ca := range a {
		key, err := encodeKey(ca.Key)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, key...)
	}
	return a.Bundle(), keys, nil
}

// decodeAuthority reads what encode has written. Whatever is wrong with it, is an error: an authority that is half read would
// sign with what is in nobody's bundle.
func decodeAuthority(certificates, keys []byte) (Authority, error) {
	read, err := readCertificates(certificates)
	if err != nil {
		return nil, err
	}
	var a Authority
	for _, certificate := range read {
		block, rest := pem.Decode(keys)
		if block == nil || block.Type != blockKey {
			return nil, errors.New("there are fewer keys than certificates")
		}
		keys = rest
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read key: %w", err)
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok || !key.PublicKey.Equal(certificate.PublicKey) {
			return nil, fmt.Errorf("the key is not that of certificate %q", certificate.Subject.CommonName)
		}
		if !certificate.IsCA {
			return nil, fmt.Errorf("certificate %q is no authority's", certificate.Subject.CommonName)
		}
		if n := len(a); n > 0 && certificate.NotBefore.Before(a[n-1].Certificate.NotBefore) {
			return nil, fmt.Errorf("certificate %q is older than the one before it", certificate.Subject.CommonName)
		}
		a = append(a, CA{certificate, key})
	}
	if block, _ := pem.Decode(keys); block != nil {
		return nil, errors.New("there are more keys than certificates")
	}
	return a, nil
}

// readCertificates reads one or more certificates in PEM, and nothing else.
func readCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != blockCertificate {
			return nil, fmt.Errorf("read certificates: there is a %q among them", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		all, text = append(all, certificate), rest
	}
	if len(all) == 0 {
		return nil, errors.New("read certificates: there is none")
	}
	return all, nil
}
