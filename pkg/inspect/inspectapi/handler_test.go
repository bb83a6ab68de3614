package inspectapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/question"
)

// rights are the rights of users: user, verb, resource, name.
func rights(spec authorization.SubjectAccessReviewSpec) bool {
	r := spec.ResourceAttributes
	if r.Group == "networking.k8s.io" || r.Group == "policy.networking.k8s.io" {
		return r.Verb == "create" &&
			(spec.User == "operator" || spec.User != "viewer" && r.Resource == "networkpolicies" && r.Namespace == "acme")
	}
	if r.Group != api.GroupName || r.Version != api.Version {
		return false
	}
	if strings.HasPrefix(spec.User, "system:serviceaccount:") {
		return r.Resource != "clusters" && (r.Resource != "flows" || r.Verb != "get" || r.Name != "")
	}
	switch spec.User {
	case "operator":
		return true
	case "checker":
		return r.Resource == "databases" && r.Subresource == "proxy" && r.Verb == "get" || r.Resource == "nodechecks" && r.Verb != "update"
	case "looker":
		return r.Resource == "nodes" && r.Subresource == "proxy" && r.Verb == "get"
	case "ed", "eve":
		// They may edit the namespace; eve may not see its flows.
		return (r.Resource == "policytrials" || r.Resource == "explanations" || r.Resource == "podflows" && spec.User == "ed") &&
			r.Namespace == "acme"
	case "val", "vic":
		// They have the role view: val in the namespace acme, vic in umbrella, too.
		return slices.Contains([]string{"pods", "explanations", "podflows"}, r.Resource) && r.Subresource == "" &&
			(r.Namespace == "acme" || r.Namespace == "umbrella" && spec.User == "vic")
	case "pinging":
		return r.Resource == "pods" && r.Subresource == "ping"
	case "viewer":
		return (r.Resource == "explanations" || r.Resource == "policytrials") && r.Subresource == ""
	case "jo":
		about := slices.Contains(append(api.NetworkResources(), api.ResourceFlows, echoes().Name), r.Resource)
		if r.Resource == api.ResourceFlows && r.Verb == "watch" || r.Resource == api.ResourcePodFlows && r.Namespace == "acme" {
			return true
		}
		return r.Verb == "list" && about || r.Verb == "get" && about && r.Name == "acme" ||
			(r.Resource == "pods" || r.Resource == "explanations" || r.Resource == "policytrials") && r.Namespace == "acme"
	}
	return false
}

// world is a handler behind a server, with the certificate of its API server.
type world struct {
	*httptest.Server
	handler *handler
	answers *answers
	reviews atomic.Int32
	// revoked is a user who lost all rights. forget clears the cache of access reviews.
	revoked atomic.Pointer[string]
	forget  func()
	client  *http.Client
	// certPEM and keyPEM are the API server's.
	certPEM, keyPEM []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, func(h *handler) http.Handler { return h.mux() })
}

// newWorldOf serves what root makes of the handler.
func newWorldOf(t *testing.T, root func(*handler) http.Handler) *world {
	t.Helper()
	w := &world{answers: &answers{}}
	client := fake.NewClientset()
	client.PrependReactor("create", "subjectaccessreviews", func(action kubetest.Action) (bool, runtime.Object, error) {
		w.reviews.Add(1)
		review := action.(kubetest.CreateAction).GetObject().(*authorization.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = rights(review.Spec)
		if gone := w.revoked.Load(); gone != nil && *gone == review.Spec.User {
			review.Status.Allowed = false
		}
		return true, review, nil
	})
	certificate, bundle := frontProxy(t, "front-proxy-client")
	authn := newAuthenticator(client, slog.New(slog.DiscardHandler))
	f, err := parseFront(map[string]string{
		"requestheader-client-ca-file": bundle, "requestheader-allowed-names": `["front-proxy-client"]`,
		"requestheader-username-headers": `["X-Remote-User"]`,
		"requestheader-group-headers":    `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	authn.front.Store(f)
	h := &handler{
		answers: w.answers.table(), authn: authn, authz: newAuthorizer(client), log: slog.New(slog.DiscardHandler), places: newPlaces(),
	}
	w.forget = h.authz.verdicts.Forget
	w.handler, w.Server = h, httptest.NewUnstartedServer(root(h))
	w.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	w.StartTLS()
	t.Cleanup(w.Close)
	w.client = w.with(certificate)
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	w.certPEM, w.keyPEM = []byte(bundle), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return w
}

func (w *world) with(certificates ...tls.Certificate) *http.Client {
	client := w.Client()
	transport := client.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = certificates
	return &http.Client{Transport: transport}
}

// frontProxy is a certificate that signs itself.
func frontProxy(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// ask is what a user is answered, and the message of a Status.
func (w *world) ask(t *testing.T, client *http.Client, user, path string) (int, string) {
	t.Helper()
	return w.send(t, client, user, http.MethodGet, path, "")
}

func (w *world) send(t *testing.T, client *http.Client, user, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.URL+"/apis/inspect.atoll.dev/v1alpha1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Remote-User", user)
	request.Header.Set("X-Remote-Group", "system:authenticated")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status meta.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		return answer.StatusCode, status.Message
	}
	return answer.StatusCode, string(text)
}

func TestWhoMayWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		user, path string
		status     int
		told       string
		// looks: the answer was looked up.
		looks bool
	}{
		{"ann", "", http.StatusOK, `"networks"`, false},
		{"operator", "/clusters/cluster", http.StatusOK, "", true},
		{"operator", "/clusters/other", http.StatusNotFound, `clusters.inspect.atoll.dev "other" not found`, false},
		{"operator", "/networks", http.StatusOK, `"umbrella"`, true},
		{"operator", "/networks/none", http.StatusNotFound, `networks.inspect.atoll.dev "none" not found`, true},
		{"operator", "/namespaces/umbrella/pods/none", http.StatusNotFound, `pods.inspect.atoll.dev "none" not found`, true},
		{"operator", "/networks?watch=true", http.StatusBadRequest, "knows no watch", false},
		{"operator", "/networks?labelSelector=a", http.StatusBadRequest, "knows no labelSelector", false},
		{"jo", "/networks/acme", http.StatusOK, "", true},
		{"operator", "/ipams/none", http.StatusNotFound, `ipams.inspect.atoll.dev "none" not found`, true},
		{"operator", "/ipams/system:cluster", http.StatusOK, "", true},
		{"operator", "/ipams", http.StatusOK, `"system:cluster"`, true},
		{"operator", "/ipamchecks/system:cluster", http.StatusOK, `"system:cluster"`, true},
		{"operator", "/ipamchecks/none", http.StatusNotFound, `ipamchecks.inspect.atoll.dev "none" not found`, true},
		{"operator", "/topologies/none", http.StatusNotFound, `topologies.inspect.atoll.dev "none" not found`, true},
		{"jo", "/ipams/acme", http.StatusOK, "", true},
		{"jo", "/ipamchecks/acme", http.StatusOK, `"acme"`, true},
		{"jo", "/topologies/acme", http.StatusOK, "", true},
		{"jo", "/ipams/umbrella", http.StatusForbidden, `cannot get resource "ipams"`, false},
		{"jo", "/ipams/system:cluster", http.StatusForbidden, `cannot get resource "ipams"`, false},
		{"jo", "/ipamchecks/umbrella", http.StatusForbidden, `cannot get resource "ipamchecks"`, false},
		{"jo", "/ipamchecks/system:cluster", http.StatusForbidden, `cannot get resource "ipamchecks"`, false},
		{"jo", "/topologies/umbrella", http.StatusForbidden, `cannot get resource "topologies"`, false},
		{"ann", "/ipams", http.StatusForbidden, "is forbidden", false},
		{"ann", "/ipamchecks", http.StatusForbidden, "is forbidden", false},
		{"ann", "/topologies", http.StatusForbidden, "is forbidden", false},
		{"jo", "/namespaces/acme/pods", http.StatusOK, "", true},
		{"jo", "/namespaces/acme/pods/web", http.StatusOK, "", true},
		{
			"jo", "/pods", http.StatusForbidden, `User "jo" cannot list resource "pods" in API group "inspect.atoll.dev" at the cluster scope`,
			false,
		},
		{
			"jo", "/networks/umbrella", http.StatusForbidden,
			`networks.inspect.atoll.dev "umbrella" is forbidden: User "jo" cannot get resource "networks" in API group "inspect.atoll.dev" at the cluster scope`, false,
		},
		{
			"jo", "/networks/none", http.StatusForbidden,
			`networks.inspect.atoll.dev "none" is forbidden: User "jo" cannot get resource "networks" in API group "inspect.atoll.dev" at the cluster scope`, false,
		},
		{
			"jo", "/namespaces/umbrella/pods/web", http.StatusForbidden,
			`User "jo" cannot get resource "pods" in API group "inspect.atoll.dev" in the namespace "umbrella"`, false,
		},
		{"jo", "/clusters/cluster", http.StatusForbidden, "is forbidden", false},
		{"ann", "/networks", http.StatusForbidden, "is forbidden", false},
		{"", "/networks", http.StatusUnauthorized, "nobody says who asks", false},
	} {
		before := w.answers.asked.Load()
		status, told := w.ask(t, w.client, c.user, c.path)
		if status != c.status || !strings.Contains(told, c.told) {
			t.Errorf("%s asks for %s: %d %s; want %d %s", c.user, c.path, status, told, c.status, c.told)
		}
		if looked := w.answers.asked.Load() > before; looked != c.looks {
			t.Errorf("%s asks for %s: it is looked up: %v", c.user, c.path, looked)
		}
	}
}

// TestAListIsCut: a user who may get some objects sees only these in a list. Of all objects, only those of the Tenants that the
// user administers get an access review.
func TestAListIsCut(t *testing.T) {
	t.Parallel()
	for _, resource := range api.NetworkResources() {
		w := newWorld(t)
		status, text := w.ask(t, w.client, "jo", "/"+resource)
		var list meta.PartialObjectMetadataList
		if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || len(list.Items) != 1 ||
			list.Items[0].Name != "acme" {
			t.Errorf("%s: %d %s: %v", resource, status, text, err)
		}
		if n := w.reviews.Load(); n != 5 {
			t.Errorf("%s: Kubernetes was asked %d times, want 5: may he see the cluster, may he list, may he get any, and each of two", resource, n)
		}
		if _, _ = w.ask(t, w.client, "jo", "/"+resource+"/acme"); w.reviews.Load() != 5 {
			t.Errorf("%s: what it has said a moment ago is asked again", resource)
		}
	}
}

// TestAnAnswerThatTakesTooLong: the client gets a Status that says so. It differs from the API server's text for a controller that
// does not answer.
func TestAnAnswerThatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handler.places.answerTime = time.Millisecond
	w.answers.block = make(chan struct{})
	defer close(w.answers.block)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/apis/inspect.atoll.dev/v1alpha1/networks/umbrella", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Remote-User", "operator")
	answer, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var status meta.Status
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil || status.Kind != "Status" ||
		status.Reason != meta.StatusReasonServiceUnavailable || int(status.Code) != answer.StatusCode {
		t.Errorf("%d %+v, %v", answer.StatusCode, status, err)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("the answer is %s", kind)
	}
}

// TestNobodyPosesAsTheAPIServer: the headers that name a user count only with the API server's certificate.
func TestNobodyPosesAsTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, _ := frontProxy(t, "front-proxy-client")
	for what, client := range map[string]*http.Client{"without a certificate": w.with(), "with one of another CA": w.with(other)} {
		if status, _ := w.ask(t, client, "operator", "/networks"); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, status)
		}
	}
	// A certificate of the right CA, with another name.
	f := &front{names: []string{"somebody-else"}, roots: x509.NewCertPool()}
	leaf, bundle := frontProxy(t, "front-proxy-client")
	f.roots.AppendCertsFromPEM([]byte(bundle))
	parsed, err := x509.ParseCertificate(leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{parsed}}}
	if f.shown(r) {
		t.Error("a certificate of another name counts")
	}
	if f.names = nil; !f.shown(r) {
		t.Error("where any name will do, it does not")
	}
}

func TestWhoIsNotReadyYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers.err = question.ErrNotRead
	if status, told := w.ask(t, w.client, "operator", "/networks"); status != http.StatusServiceUnavailable ||
		!strings.Contains(told, "not been read yet") {
		t.Errorf("%d %s", status, told)
	}
	w.answers.err = errors.New("no")
	if status, _ := w.ask(t, w.client, "operator", "/networks/acme"); status != http.StatusInternalServerError {
		t.Errorf("%d", status)
	}
}

func TestFrontsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, bundle := frontProxy(t, "x")
	for _, data := range []map[string]string{
		{},
		{"requestheader-client-ca-file": "none"},
		{"requestheader-client-ca-file": bundle},
		{"requestheader-client-ca-file": bundle, "requestheader-username-headers": "X-Remote-User"},
	} {
		if f, err := parseFront(data); err == nil {
			t.Errorf("%v is read as %+v", data, f)
		}
	}
}
