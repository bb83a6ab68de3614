//go:build integration

package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// api is a real API server with what dist/rbac gives, nodes n1 and n2, and a signer with the controller's rights.
type api struct {
	*apiserver.Server
	admin  kubernetes.Interface
	signer *Signer
	stop   context.CancelFunc
}

func newAPI(t *testing.T) *api {
	t.Helper()
	s := apiserver.Start(t)
	a := &api{Server: s, admin: clientOf(t, s.RESTConfig())}
	if err := s.Apply(t.Context(), "../../../dist/rbac"); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"n1": "192.0.2.1", "n2": "192.0.2.2"} {
		node, err := a.admin.CoreV1().Nodes().Create(t.Context(), &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Addresses = []core.NodeAddress{{Type: core.NodeInternalIP, Address: address}}
		if _, err := a.admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"atoll-ovn-central", "atoll-ovn-node", InspectName, "other"} {
		_, err := a.admin.CoreV1().ServiceAccounts(Namespace).Create(t.Context(), &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: name}},
			meta.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	a.sign(t, func(*Signer) {})
	return a
}

// sign runs a signer, in place of the one before.
func (a *api) sign(t *testing.T, change func(*Signer)) {
	t.Helper()
	if a.stop != nil {
		a.stop()
	}
	controller := clientOf(t, a.As("system:serviceaccount:atoll-system:atoll-controller", "system:serviceaccounts", "system:authenticated"))
	a.signer = NewSigner(SignerConfig{Client: controller, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	change(a.signer)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.signer.Run(ctx) })
	a.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(a.stop)
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// on is a ServiceAccount with a token of a pod on a node, as the kubelet gives it to the pod.
func (a *api) on(t *testing.T, node, account string) kubernetes.Interface {
	t.Helper()
	pod, err := a.admin.CoreV1().Pods(Namespace).Create(t.Context(), &core.Pod{
		ObjectMeta: meta.ObjectMeta{GenerateName: account + "-"},
		Spec: core.PodSpec{
			NodeName: node, HostNetwork: true, ServiceAccountName: account, Containers: []core.Container{{Name: "c", Image: "none"}},
		},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := a.admin.CoreV1().ServiceAccounts(Namespace).CreateToken(t.Context(), account, &authentication.TokenRequest{
		Spec: authentication.TokenRequestSpec{
			BoundObjectRef: &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name},
		},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(a.RESTConfig())
	config.BearerToken = token.Status.Token
	return clientOf(t, config)
}

// ask sends a request and returns what becomes of it.
func (a *api) ask(
	t *testing.T, who kubernetes.Interface, signer, name string, addresses ...string,
) (*certificates.CertificateSigningRequest, *ecdsa.PrivateKey, error) {
	t.Helper()
	key := newKey(t)
	request := requestFor(t, key, signer, name, addresses...)
	request, err := who.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, meta.CreateOptions{})
	if err != nil {
		return nil, nil, err
	}
	return a.answerTo(t, request.Name), key, nil
}

func (a *api) answerTo(t *testing.T, name string) *certificates.CertificateSigningRequest {
	t.Helper()
	var request *certificates.CertificateSigningRequest
	until(t, "an answer to "+name, func() error {
		var err error
		if request, err = a.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, meta.GetOptions{}); err == nil &&
			!answered(request) {
			err = fmt.Errorf("no answer: %+v", request.Status)
		}
		return err
	})
	return request
}

func requestFor(t *testing.T, key *ecdsa.PrivateKey, signer, name string, addresses ...string) *certificates.CertificateSigningRequest {
	t.Helper()
	template := x509.CertificateRequest{Subject: pkix.Name{CommonName: name}, DNSNames: grantOf(signer, "").Names}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	usages := grantOf(signer, "").usages()
	w := wish{template: template, key: key, signer: signer, usages: usages}
	spec := w.spec(t)
	return &certificates.CertificateSigningRequest{
		ObjectMeta: meta.ObjectMeta{GenerateName: "test-"},
		Spec:       certificates.CertificateSigningRequestSpec{SignerName: signer, Usages: usages, Request: spec.Request},
	}
}

// until waits until something is so.
func until(t *testing.T, what string, so func() error) {
	t.Helper()
	wait.Eventually(t, wait.Patience, what, func(context.Context) error { return so() })
}

// A node's programs get a certificate of their own node, and nobody gets another's: judged by tokens that the API server has given.
func TestCertificatesAreOfTheirOwnNode(t *testing.T) {
	a := newAPI(t)
	// A tenant's admin may create CertificateSigningRequests, as the role edit permits in some clusters.
	if _, err := a.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "asks"}, RoleRef: rbac.RoleRef{
			APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "atoll-certificate-requester",
		},
		Subjects: []rbac.Subject{
			{Kind: "User", APIGroup: rbac.GroupName, Name: "tenant"}, {Kind: "ServiceAccount", Name: "other", Namespace: Namespace},
		},
	}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	askers := map[string]kubernetes.Interface{
		"node":     a.on(t, "n1", "atoll-ovn-node"),
		"agent":    a.on(t, "n1", "atoll-agent"),
		"member":   a.on(t, "n1", "atoll-ovn-central"),
		"other":    a.on(t, "n1", "other"),
		"inspect":  a.on(t, "n1", InspectName),
		"tenant":   clientOf(t, a.As("tenant", "atoll.dev:node:n1", "system:authenticated")),
		"stranger": clientOf(t, a.As("stranger", "system:authenticated")),
	}
	for _, test := range []struct {
		who, signer, name string
		addresses         []string
		reason            string
	}{
		{"node", SignerNode, "n1", nil, ""},
		{"agent", SignerNode, "n1", nil, reasonAsker},
		{"agent", SignerReader, "atoll-agent:n1", nil, ""},
		{"agent", SignerReader, "atoll-agent:n2", nil, reasonName},
		{"agent", SignerReader, "n1", nil, reasonName},
		{"node", SignerReader, "atoll-agent:n1", nil, reasonAsker},
		{"tenant", SignerReader, "atoll-agent:n1", nil, reasonAsker},
		{"member", SignerCentral, "atoll-ovn-central:n1", []string{"192.0.2.1"}, ""},
		{"agent", SignerAgent, "n1", []string{"192.0.2.1"}, ""},
		{"agent", SignerAgent, "n2", []string{"192.0.2.2"}, reasonName},
		{"agent", SignerAgent, "n1", []string{"192.0.2.2"}, reasonAddress},
		{"node", SignerAgent, "n1", []string{"192.0.2.1"}, reasonAsker},
		{"tenant", SignerAgent, "n1", []string{"192.0.2.1"}, reasonAsker},
		{"node", SignerNode, "n2", nil, reasonName},
		{"node", SignerCentral, "atoll-ovn-central:n1", nil, reasonAsker},
		{"agent", SignerCentral, "atoll-ovn-central:n1", nil, reasonAsker},
		{"member", SignerCentral, "atoll-ovn-central:n2", nil, reasonName},
		{"member", SignerCentral, "atoll-ovn-central:n1", []string{"192.0.2.2"}, reasonAddress},
		{"inspect", SignerInspect, "atoll-inspect:n1", nil, ""},
		{"inspect", SignerInspect, "atoll-inspect:n2", nil, reasonName},
		{"inspect", SignerInspect, ControllerName, nil, reasonName},
		{"inspect", SignerCentral, "atoll-ovn-central:n1", nil, reasonAsker},
		{"inspect", SignerInspectServer, InspectName, nil, ""},
		{"agent", SignerInspect, "atoll-inspect:n1", nil, reasonAsker},
		{"agent", SignerInspectServer, InspectName, nil, reasonAsker},
		{"tenant", SignerInspect, "atoll-inspect:n1", nil, reasonAsker},
		{"other", SignerNode, "n1", nil, reasonAsker},
		{"tenant", SignerNode, "n1", nil, reasonAsker},
	} {
		request, key, err := a.ask(t, askers[test.who], test.signer, test.name, test.addresses...)
		if err != nil {
			t.Errorf("%s asks for %s: %v", test.who, test.name, err)
			continue
		}
		if test.reason != "" {
			if len(request.Status.Certificate) > 0 || !has(request, certificates.CertificateDenied) ||
				request.Status.Conditions[0].Reason != test.reason {
				t.Errorf("%s asks for %s: %+v; want it denied: %s", test.who, test.name, request.Status, test.reason)
			}
			continue
		}
		private, err := encodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := readPair(request.Status.Certificate, private)
		if err != nil || pair.leaf.Subject.CommonName != test.name ||
			!pair.signedBy((*a.signer.authorities.Load())[kindOf[test.signer]].Bundle(), time.Now()) {
			t.Errorf("%s asks for %s: %v, %+v", test.who, test.name, err, request.Status)
		}
	}
	if _, _, err := a.ask(t, askers["stranger"], SignerNode, "n1"); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without the right makes a request: %v", err)
	}
	t.Run("shut out", func(t *testing.T) { testShutOut(t, a, askers) })
	t.Run("approved by hand", func(t *testing.T) { testApprovedByHand(t, a, askers["node"]) })
	t.Run("rights", func(t *testing.T) { testSignersRights(t, a) })

	// The control: what is denied would be signed without the judge.
	a.sign(t, func(s *Signer) {
		s.judge = func(spec *certificates.CertificateSigningRequestSpec, _ *core.Node) (Grant, any, error) {
			request, public, err := readRequest(spec.Request)
			if err != nil {
				return Grant{}, nil, err
			}
			return Grant{CommonName: request.Subject.CommonName, Client: true}, public, nil
		}
	})
	if request, _, err := a.ask(t, askers["tenant"], SignerNode, "n2"); err != nil || len(request.Status.Certificate) == 0 {
		t.Errorf("the control: without the judge, a tenant gets no certificate of a node: %v", err)
	}
}

// A node that is shut out gets no certificate, although its token is good. Before and after it does: these are the controls.
func testShutOut(t *testing.T, a *api, askers map[string]kubernetes.Interface) {
	list := func(data map[string]string) {
		t.Helper()
		object := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: shutout.Name}, Data: data}
		_, err := a.admin.CoreV1().ConfigMaps(Namespace).Update(t.Context(), object, meta.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = a.admin.CoreV1().ConfigMaps(Namespace).Create(t.Context(), object, meta.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		listed map[string]string
		reason string
	}{
		{map[string]string{"n2": "2026-11-28T10:00:00Z"}, ""},
		{map[string]string{"n1": "2026-11-28T10:00:00Z", "n2": "2026-11-28T10:00:00Z"}, reasonShutOut},
		{map[string]string{"n1": "yesterday"}, reasonShutOut},
		{nil, ""},
	} {
		list(c.listed)
		for _, one := range []struct{ who, signer, name string }{
			{"node", SignerNode, "n1"}, {"inspect", SignerInspect, "atoll-inspect:n1"}, {"inspect", SignerInspectServer, InspectName},
		} {
			request, _, err := a.ask(t, askers[one.who], one.signer, one.name)
			if err != nil {
				t.Fatal(err)
			}
			if signed := len(request.Status.Certificate) > 0; signed != (c.reason == "") ||
				!signed && request.Status.Conditions[0].Reason != c.reason {
				t.Errorf("%s, with the list %v: %+v; want the reason %q", one.signer, c.listed, request.Status, c.reason)
			}
		}
	}
}

// A request that a person has approved, and that does not fit, is refused all the same.
func testApprovedByHand(t *testing.T, a *api, node kubernetes.Interface) {
	a.stop()
	requests := a.admin.CertificatesV1().CertificateSigningRequests()
	request, err := node.CertificatesV1().CertificateSigningRequests().Create(t.Context(), requestFor(t, newKey(t), SignerNode, "n2"),
		meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = []certificates.CertificateSigningRequestCondition{
		condition(certificates.CertificateApproved, "ByHand", "it looked good"),
	}
	if _, err := requests.UpdateApproval(t.Context(), request.Name, request, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.sign(t, func(*Signer) {})
	if request = a.answerTo(t, request.Name); len(request.Status.Certificate) > 0 || !has(request, certificates.CertificateFailed) {
		t.Errorf("%+v; want it failed", request.Status)
	}
}

// The controller signs nothing of Kubernetes' own signers, and reads no other Secret.
func testSignersRights(t *testing.T, a *api) {
	controller := clientOf(t, a.As("system:serviceaccount:atoll-system:atoll-controller", "system:authenticated"))
	request := requestFor(t, newKey(t), certificates.KubeAPIServerClientSignerName, "system:admin")
	request, err := a.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = []certificates.CertificateSigningRequestCondition{condition(certificates.CertificateApproved, "x", "x")}
	if _, err := controller.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), request.Name, request,
		meta.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the controller approves for %s: %v", request.Spec.SignerName, err)
	}
	if _, err := controller.CoreV1().Secrets(Namespace).Get(t.Context(), "other", meta.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the controller reads another Secret: %v", err)
	}
	if _, err := a.on(t, "n1", "atoll-agent").CoreV1().Secrets(Namespace).Get(t.Context(), Node.Secret(),
		meta.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an agent reads the key of an authority: %v", err)
	}
}

// A Keeper has files, follows a new CA at once, and is told why it gets nothing. What it keeps is a member's.
func TestKeep(t *testing.T) {
	a := newAPI(t)
	dir := filepath.Join(t.TempDir(), "member")
	changed := make(chan struct{}, 16)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	member := NewKeeper(KeeperConfig{
		Client: a.on(t, "n1", "atoll-ovn-central"), Log: log, Signer: SignerCentral, Node: "n1", Dir: dir, TrustNodes: true,
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Changed: func() { changed <- struct{}{} },
	})
	if member.Healthy() == nil {
		t.Error("it is healthy before there is a certificate")
	}
	run(t, member)
	<-changed
	if err := member.Healthy(); err != nil {
		t.Error(err)
	}
	before, err := readFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Somebody wants a new CA of nodes: the member trusts it before it signs.
	secrets := a.admin.CoreV1().Secrets(Namespace)
	secret, err := secrets.Get(t.Context(), Node.Secret(), meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Annotations = map[string]string{RotateAnnotation: "true"}
	if _, err := secrets.Update(t.Context(), secret, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := a.signer.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-changed
	if authority := (*a.signer.authorities.Load())[Node]; len(authority) != 2 || authority.Signing(time.Now()) != authority[0] {
		t.Errorf("%d CAs, want the old one to sign and a new one beside it", len(authority))
	}
	if after, err := readFiles(dir); err != nil || !after.key.Equal(before.key) {
		t.Errorf("a new CA of nodes has changed a member's key: %v", err)
	}
	if secret, err = secrets.Get(t.Context(), Node.Secret(), meta.GetOptions{}); err != nil || secret.Annotations[RotateAnnotation] != "" {
		t.Errorf("the wish stays: %v, %v", secret.Annotations, err)
	}
	// A second controller takes the authorities that are there.
	other := store{a.admin, time.Now}
	if all, err := other.current(t.Context()); err != nil ||
		string(all[Central].Bundle()) != string((*a.signer.authorities.Load())[Central].Bundle()) {
		t.Errorf("a second controller has other authorities: %v", err)
	}
	// One that asks for the wrong node says so.
	wrong := NewKeeper(KeeperConfig{
		Client: a.on(t, "n1", "atoll-ovn-node"), Log: log, Signer: SignerNode, Node: "n2", Dir: filepath.Join(t.TempDir(), "n2"),
	})
	if _, err := wrong.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "on node n1, gets") {
		t.Errorf("it asks for another node: %v", err)
	}
}

func run(t *testing.T, k *Keeper) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}
