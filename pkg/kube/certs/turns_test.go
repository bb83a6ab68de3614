package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
)

// TestNodesTakeTurns: the requests of one node, however many they are, do not keep another node from its certificate.
func TestNodesTakeTurns(t *testing.T) {
	t.Parallel()
	const many = 300
	objects := []runtime.Object{&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1"}}, &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n2"}}}
	queue := newQueue()
	defer queue.ShutDown()
	ask := func(name string, spec certificates.CertificateSigningRequestSpec) {
		request := &certificates.CertificateSigningRequest{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: spec}
		objects = append(objects, request)
		small, err := slim(request)
		if err != nil {
			t.Fatal(err)
		}
		queue.Add(waitingOf(small.(*certificates.CertificateSigningRequest)))
	}
	of := func(node string) certificates.CertificateSigningRequestSpec {
		w := wish{
			signer: SignerNode, user: "system:serviceaccount:atoll-system:atoll-ovn-node", token: []string{node},
			usages: grantOf(SignerNode, node).usages(), template: x509.CertificateRequest{Subject: pkix.Name{CommonName: node}}, key: newKey(t),
		}
		return *w.spec(t)
	}
	wrong := of("n1")
	wrong.Request = nil
	stranger := of("n1")
	stranger.Username = "mallory"
	for i := range many {
		ask(fmt.Sprintf("of-n1-%d", i), wrong)
		ask(fmt.Sprintf("of-mallory-%d", i), stranger)
	}
	ask("of-n2", of("n2"))

	client := kubefake.NewClientset(objects...)
	s := NewSigner(SignerConfig{Client: client, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch }})
	s.authorities.Store(&Authorities{Node: newAuthority(t, "node", epoch)})
	for answers := 1; ; answers++ {
		if !s.next(t.Context(), queue) {
			t.Fatal("the queue has ended")
		}
		request, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "of-n2", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answered(request) {
			if len(request.Status.Certificate) == 0 {
				t.Errorf("n2 is refused: %+v", request.Status.Conditions)
			}
			if answers > 3 {
				t.Errorf("n2 is answered after %d others", answers-1)
			}
			break
		}
	}
	if left := queue.Len(); left != 2*many-2 {
		t.Errorf("%d requests wait, want %d", left, 2*many-2)
	}
}

// TestSlim: what the signer keeps of requests says whether they are answered, and not what they ask for.
func TestSlim(t *testing.T) {
	t.Parallel()
	for what, status := range map[string]certificates.CertificateSigningRequestStatus{
		"waits":       {},
		"is approved": {Conditions: []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateApproved, Message: "long"}}},
		"is denied":   {Conditions: []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateDenied}}},
		"is signed":   {Certificate: []byte("long")},
	} {
		request := &certificates.CertificateSigningRequest{
			ObjectMeta: meta.ObjectMeta{Name: "r", ManagedFields: []meta.ManagedFieldsEntry{{Manager: "m"}}}, Status: status,
			Spec: certificates.CertificateSigningRequestSpec{
				SignerName: SignerNode, Username: "system:serviceaccount:atoll-system:atoll-ovn-node", Request: []byte("long"),
				Extra: map[string]certificates.ExtraValue{tokenNode: {"n1"}},
			},
		}
		object, err := slim(request)
		if err != nil {
			t.Fatal(err)
		}
		small := object.(*certificates.CertificateSigningRequest)
		if answered(small) != answered(request) || len(small.Spec.Request) > 0 || len(small.ManagedFields) > 0 ||
			len(small.Status.Certificate) > 1 {
			t.Errorf("of one that %s is kept %+v", what, small)
		}
		if !answered(request) && waitingOf(small) != (waiting{"n1", "r"}) {
			t.Errorf("one that %s is of %+v", what, waitingOf(small))
		}
	}
}
