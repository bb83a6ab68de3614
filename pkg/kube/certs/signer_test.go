package certs

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
)

// TestANewerAuthorityDoesNotSign: an authority that is made anew while a request is judged does not sign it. The node may have
// been shut out since the list was read, and the authority of before is worth nothing then.
func TestANewerAuthorityDoesNotSign(t *testing.T) {
	t.Parallel()
	w := wish{
		signer: SignerNode, user: "system:serviceaccount:atoll-system:atoll-ovn-node", token: []string{"n1"},
		usages: grantOf(SignerNode, "n1").usages(), key: newKey(t),
	}
	request := &certificates.CertificateSigningRequest{ObjectMeta: meta.ObjectMeta{Name: "of-n1"}, Spec: *w.spec(t)}
	client := kubefake.NewClientset(request, &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1"}})
	s := NewSigner(SignerConfig{Client: client, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch }})
	before, after := newAuthority(t, "node", epoch), newAuthority(t, "node", epoch)
	s.authorities.Store(&Authorities{Node: before})
	s.judge = func(*certificates.CertificateSigningRequestSpec, *core.Node) (Grant, key, error) {
		s.authorities.Store(&Authorities{Node: after})
		return grantOf(SignerNode, "n1"), w.key.Public(), nil
	}
	if err := s.answer(t.Context(), "of-n1"); err != nil {
		t.Fatal(err)
	}
	answer, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "of-n1", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := readCertificates(answer.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	by := func(a Authority) bool {
		return slices.ContainsFunc(a, func(ca CA) bool { return all[0].CheckSignatureFrom(ca.Certificate) == nil })
	}
	if !by(before) || by(after) {
		t.Errorf("the authority of before has signed: %t; the newer one: %t", by(before), by(after))
	}
}
