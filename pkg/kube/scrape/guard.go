package scrape

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/process/connlimit"
)

const (
	// goodAge is how old a verdict may be by which somebody is let in again: scrapers come to each node every few seconds, and nodes are many.
	// badAge is that of a refusal, which may have been mended.
	goodAge, badAge = 30 * time.Second, 5 * time.Second
	// maxVerdicts bounds how many are remembered.
	maxVerdicts = 256
	// reviewTime bounds the asking for one, and maxReviews how many are asked for at once.
	reviewTime = 5 * time.Second
	maxReviews = 4
	// maxToken is the longest token that the API server is asked about, in bytes.
	maxToken = 8 << 10
)

// guard lets those read a path to whom RBAC gives the verb get on it, as it guards /metrics of the components of Kubernetes.
type guard struct {
	client  kubernetes.Interface
	path    string
	reviews chan struct{}

	mu       sync.Mutex
	verdicts map[[sha256.Size]byte]verdict
}

// verdict is the status with which a token is answered.
type verdict struct {
	status int
	given  time.Time
}

// Guard has requests judged before they are served: by their token, and by who may get a path.
func Guard(client kubernetes.Interface, path string, next http.Handler) http.Handler {
	return newGuard(client, path).before(next)
}

func newGuard(client kubernetes.Interface, path string) *guard {
	return &guard{client: client, path: path, reviews: make(chan struct{}, maxReviews), verdicts: map[[sha256.Size]byte]verdict{}}
}

// before has requests judged before they are served.
func (g *guard) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := g.judge(r)
		if status == http.StatusOK && !connlimit.Know(r.Context()) {
			status = http.StatusServiceUnavailable
		}
		if status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		// Who may not read gets one answer, and keeps no connection. The server would wait for the rest of a request's body.
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(status), status)
	})
}

func (g *guard) judge(r *http.Request) int {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !bearer || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	sum := sha256.Sum256([]byte(token))
	if status, known := g.remembered(sum); known {
		return status
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTime)
	defer cancel()
	select {
	case g.reviews <- struct{}{}:
		defer func() { <-g.reviews }()
	case <-ctx.Done():
		return http.StatusServiceUnavailable
	}
	status, err := g.review(ctx, token)
	if err != nil {
		// It may be known the next time.
		return http.StatusServiceUnavailable
	}
	g.remember(sum, status)
	return status
}

// review asks the API server whose token it is, and what he may.
func (g *guard) review(ctx context.Context, token string) (status int, err error) {
	who, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	extra := map[string]authorization.ExtraValue{}
	for key, values := range who.Status.User.Extra {
		extra[key] = authorization.ExtraValue(values)
	}
	may, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{
		Spec: authorization.SubjectAccessReviewSpec{
			User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
			NonResourceAttributes: &authorization.NonResourceAttributes{Path: g.path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (g *guard) remembered(sum [sha256.Size]byte) (status int, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, known := g.verdicts[sum]
	age := badAge
	if v.status == http.StatusOK {
		age = goodAge
	}
	return v.status, known && time.Since(v.given) < age
}

func (g *guard) remember(sum [sha256.Size]byte, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.verdicts) >= maxVerdicts {
		// Who makes up tokens makes others be asked about again, and no more.
		clear(g.verdicts)
	}
	g.verdicts[sum] = verdict{status: status, given: time.Now()}
}
