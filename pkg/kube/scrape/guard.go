package scrape

import (
	"context"
	"net/http"
	"time"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/access"
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
)

// guard lets those read a path to whom RBAC gives the verb get on it, as it guards /metrics of the components of Kubernetes.
type guard struct {
	client  kubernetes.Interface
	path    string
	reviews chan struct{}
	// verdicts are the statuses with which tokens are answered.
	verdicts *access.Verdicts[int]
}

// Guard has requests judged before they are served: by their token, and by who may get a path.
func Guard(client kubernetes.Interface, path string, next http.Handler) http.Handler {
	return newGuard(client, path).before(next)
}

func newGuard(client kubernetes.Interface, path string) *guard {
	verdicts := &access.Verdicts[int]{Good: http.StatusOK, GoodAge: goodAge, BadAge: badAge, Most: maxVerdicts}
	return &guard{client: client, path: path, reviews: make(chan struct{}, maxReviews), verdicts: verdicts}
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
	token := access.Token(r)
	if token == "" {
		return http.StatusUnauthorized
	}
	if status, known := g.verdicts.Recall(token); known {
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
	g.verdicts.Remember(token, status)
	return status
}

// review asks the API server whose token it is, and what they may.
func (g *guard) review(ctx context.Context, token string) (status int, err error) {
	who, known, err := access.Whose(ctx, g.client, token)
	if err != nil {
		return 0, err
	}
	if !known {
		return http.StatusUnauthorized, nil
	}
	question := who.Asks()
	question.NonResourceAttributes = &authorization.NonResourceAttributes{Path: g.path, Verb: "get"}
	may, err := access.May(ctx, g.client, question)
	if err != nil {
		return 0, err
	}
	if !may {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
