//go:build integration

package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// testShutOut: what a thief does with a node's credentials to have the node back is refused while the node is shut out, and
// nobody gives them pods. The controls are the same before, and the same of another node.
func testShutOut(t *testing.T, s *apiserver.Server) {
	const refused = "is shut out (ConfigMap atoll-nodes-shut-out): a year later, or with --old-credentials-have-ended, atoll node admit"
	admin := clientFor(t, s.RESTConfig())
	grant(t, admin, "kubelets", "system:nodes",
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status", "serviceaccounts/token", "pods"},
			Verbs: []string{"create", "update", "get"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"},
		})
	kubelet := func(node string) kubernetes.Interface {
		return clientFor(t, s.As("system:node:"+node, "system:nodes", "system:authenticated"))
	}
	// A token that was made on the node before.
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out-3"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	agentOf3 := clientFor(t, withToken(t, s, admin, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: "out-3"}))
	request := signingRequest(t)
	tries := []struct {
		what string
		who  func(node string) kubernetes.Interface
		do   func(ctx context.Context, who kubernetes.Interface, node string) error
	}{
		{"its kubelet registers it", kubelet, makeNode},
		{"its kubelet has a token made", kubelet, func(ctx context.Context, who kubernetes.Interface, _ string) error {
			_, err := who.CoreV1().ServiceAccounts("atoll-system").CreateToken(ctx, "atoll-agent", &authenticationv1.TokenRequest{}, dry)
			return err
		}},
		{"its kubelet makes a pod", kubelet, makePod},
		{
			"its kubelet asks for a certificate", kubelet,
			func(ctx context.Context, who kubernetes.Interface, _ string) error { return askFor(ctx, who, request) },
		},
		{"an agent's certificate asks for one", func(node string) kubernetes.Interface {
			return clientFor(t, s.As(agent, "atoll.dev:node:"+node, "system:nodes", "system:authenticated"))
		}, func(ctx context.Context, who kubernetes.Interface, _ string) error { return askFor(ctx, who, request) }},
		{"somebody makes a Node of its name", func(string) kubernetes.Interface { return admin }, makeNode},
		{"somebody makes a pod for it", func(string) kubernetes.Interface { return admin }, makePod},
		{"somebody binds a pod to it", func(string) kubernetes.Interface { return admin }, func(
			ctx context.Context, who kubernetes.Interface, node string,
		) error {
			return who.CoreV1().Pods("default").Bind(ctx,
				&corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unbound"}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
				}, dry)
		}},
	}
	unbound := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unbound"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), unbound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, try := range tries {
		if err := try.do(t.Context(), try.who("out-1"), "out-1"); err != nil {
			t.Errorf("before: %s: %v", try.what, err)
		}
	}
	for _, node := range []string{"out-1", "out-3"} {
		if _, err := shutout.Add(t.Context(), admin, node, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	waitForPolicies(t, func(ctx context.Context) error { return makeNode(ctx, admin, "out-1") })
	for _, try := range tries {
		expect(t, try.do(t.Context(), try.who("out-1"), "out-1"), refused)
		if err := try.do(t.Context(), try.who("out-2"), "out-2"); err != nil {
			t.Errorf("of another node: %s: %v", try.what, err)
		}
	}
	expect(t, askFor(t.Context(), agentOf3, request), refused)
	for _, node := range []string{"out-1", "out-3"} {
		if err := shutout.Admit(t.Context(), admin, node); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever has credentials of before has the node again: that is why atoll node admit asks whether these have ended.
	wait.Eventually(t, wait.Patience, "what was admitted is there again",
		func(ctx context.Context) error { return makeNode(ctx, admin, "out-1") })
	if err := askFor(t.Context(), agentOf3, request); err != nil {
		t.Errorf("the agent asks again: %v", err)
	}
}

func makeNode(ctx context.Context, who kubernetes.Interface, node string) error {
	_, err := who.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, dry)
	return err
}

func makePod(ctx context.Context, who kubernetes.Interface, node string) error {
	_, err := who.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "on-" + node}, Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, dry)
	return err
}

func askFor(ctx context.Context, who kubernetes.Interface, request []byte) error {
	_, err := who.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "asked-for"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "atoll.dev/ovn-node", Request: request, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, dry)
	return err
}

func signingRequest(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "out-1"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
