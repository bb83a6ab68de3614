package inspectapi

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/process/connlimit"
)

const (
	// frontNamespace and frontName are the ConfigMap in which the API server says by which certificate it comes, and in which headers it
	// says for whom. (Kubernetes, "Configure the aggregation layer".)
	frontNamespace, frontName = "kube-system", "extension-apiserver-authentication"
	// frontEvery is how often it is read, frontRetry while it cannot be.
	frontEvery, frontRetry = time.Minute, 2 * time.Second
	// reviewTime bounds a question to the API server.
	reviewTime = 5 * time.Second
)

var (
	// errNobody: it is not known who asks.
	errNobody = errors.New("nobody says who asks: come by way of the API server, or with a token")
	// errNoReview: the API server does not say.
	errNoReview = errors.New("the API server does not say who asks")
)

// front is by what the API server is known.
type front struct {
	roots *x509.CertPool
	// names are those that its certificate may have; none: any.
	names []string
	// The headers.
	user, uid, group, extra []string
}

// authenticator knows who asks.
type authenticator struct {
	client kubernetes.Interface
	log    *slog.Logger
	front  atomic.Pointer[front]
	// reviews bounds how many tokens are asked about at once.
	reviews chan struct{}
}

func newAuthenticator(client kubernetes.Interface, log *slog.Logger) *authenticator {
	return &authenticator{client: client, log: log, reviews: make(chan struct{}, maxReviews)}
}

// follow keeps what the API server is known by, until ctx ends.
func (a *authenticator) follow(ctx context.Context) {
	failed := false
	for {
		wait := frontEvery
		if err := a.read(ctx); err != nil && ctx.Err() == nil {
			if !failed {
				a.log.Warn("the API server is not known by its certificate, only tokens are", "error", err)
			}
			failed, wait = true, frontRetry
		} else {
			failed = false
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (a *authenticator) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	object, err := a.client.CoreV1().ConfigMaps(frontNamespace).Get(ctx, frontName, meta.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", frontNamespace, frontName, err)
	}
	f, err := parseFront(object.Data)
	if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", frontNamespace, frontName, err)
	}
	a.front.Store(f)
	return nil
}

func parseFront(data map[string]string) (*front, error) {
	f := &front{roots: x509.NewCertPool()}
	if !f.roots.AppendCertsFromPEM([]byte(data["requestheader-client-ca-file"])) {
		return nil, errors.New("it has no requestheader-client-ca-file: the API server does not aggregate (--requestheader-client-ca-file)")
	}
	for key, into := range map[string]*[]string{
		"requestheader-allowed-names": &f.names, "requestheader-username-headers": &f.user, "requestheader-uid-headers": &f.uid,
		"requestheader-group-headers": &f.group, "requestheader-extra-headers-prefix": &f.extra,
	} {
		if data[key] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data[key]), into); err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
	}
	if len(f.user) == 0 {
		return nil, errors.New("it has no requestheader-username-headers")
	}
	return f, nil
}

// who says who asks: the one that the API server names in headers, if it is the API server; else the one whose token it is.
func (a *authenticator) who(r *http.Request) (access.User, error) {
	if f := a.front.Load(); f != nil && f.shown(r) {
		connlimit.Know(r.Context())
		return f.named(r.Header)
	}
	if token := access.Token(r); token != "" {
		return a.review(r.Context(), token)
	}
	return access.User{}, errNobody
}

// shown reports whether a request comes with the API server's certificate.
func (f *front) shown(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	leaf, between := r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: f.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil && (len(f.names) == 0 || slices.Contains(f.names, leaf.Subject.CommonName))
}

// named is who the headers name.
func (f *front) named(h http.Header) (access.User, error) {
	first := func(headers []string) string {
		for _, header := range headers {
			if v := h.Get(header); v != "" {
				return v
			}
		}
		return ""
	}
	u := access.User{Name: first(f.user), UID: first(f.uid), Extra: map[string]authorization.ExtraValue{}}
	if u.Name == "" {
		return access.User{}, errNobody
	}
	for _, header := range f.group {
		u.Groups = append(u.Groups, h.Values(header)...)
	}
	for _, prefix := range f.extra {
		for header, values := range h {
			if len(header) > len(prefix) && strings.EqualFold(header[:len(prefix)], prefix) {
				key := strings.ToLower(header[len(prefix):])
				if plain, err := url.PathUnescape(key); err == nil {
					key = plain
				}
				u.Extra[key] = append(u.Extra[key], values...)
			}
		}
	}
	return u, nil
}

func (a *authenticator) review(ctx context.Context, token string) (access.User, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	select {
	case a.reviews <- struct{}{}:
		defer func() { <-a.reviews }()
	case <-ctx.Done():
		return access.User{}, errNoReview
	}
	who, known, err := access.Whose(ctx, a.client, token)
	if err != nil {
		return access.User{}, fmt.Errorf("%w: %w", errNoReview, err)
	}
	if !known {
		return access.User{}, errNobody
	}
	return who, nil
}
