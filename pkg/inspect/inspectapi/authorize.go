package inspectapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

const (
	// allowedAge is how old a verdict may be that allows, refusedAge one that refuses, which may have been mended.
	allowedAge, refusedAge = 10 * time.Second, 2 * time.Second
	// maxVerdicts bounds how many are remembered: some users' whole lists.
	maxVerdicts = 1 << 14
	// maxReviews is how many are asked for at once.
	maxReviews = 16
)

// attributes are what is asked for. group is empty for that of inspect.atoll.dev.
type attributes struct{ verb, group, resource, subresource, namespace, name string }

// authorizer asks Kubernetes who may what.
type authorizer struct {
	client kubernetes.Interface

	// asking has those who ask the same at the same time ask once.
	asking singleflight.Group

	mu       sync.Mutex
	verdicts map[[sha256.Size]byte]verdict
}

type verdict struct {
	allowed bool
	given   time.Time
}

func newAuthorizer(client kubernetes.Interface) *authorizer {
	return &authorizer{client: client, verdicts: map[[sha256.Size]byte]verdict{}}
}

// may reports whether somebody may do something. Its error is that the API server does not say.
func (a *authorizer) may(ctx context.Context, who user, what attributes) (bool, error) {
	spec := authorization.SubjectAccessReviewSpec{
		User: who.name, UID: who.uid, Groups: who.groups, Extra: who.extra,
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: what.verb, Group: cmp.Or(what.group, api.GroupName), Version: version(what.group), Resource: what.resource, Subresource: what.subresource, Namespace: what.namespace, Name: what.name,
		},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	sum := sha256.Sum256(text)
	if allowed, known := a.remembered(sum); known {
		return allowed, nil
	}
	answers := a.asking.DoChan(string(sum[:]), func() (any, error) {
		// It is for others, too, who may have more time.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTime)
		defer cancel()
		answer, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: spec}, meta.CreateOptions{})
		if err == nil {
			a.remember(sum, answer.Status.Allowed)
		}
		return err == nil && answer.Status.Allowed, err
	})
	select {
	case answer := <-answers:
		if answer.Err != nil {
			return false, fmt.Errorf("review access: %w", answer.Err)
		}
		return answer.Val == true, nil
	case <-ctx.Done():
		return false, fmt.Errorf("review access: %w", context.Cause(ctx))
	}
}

// version is that of inspect.atoll.dev, and any of other groups.
func version(group string) string {
	if group == "" {
		return api.Version
	}
	return "*"
}

// which are those of some names that somebody may get.
func (a *authorizer) which(ctx context.Context, who user, resource string, names []string) (map[string]bool, error) {
	out := make(map[string]bool, len(names))
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		failed error
		next   = make(chan string)
	)
	for range maxReviews {
		asking.Go(func() {
			for name := range next {
				allowed, err := a.may(ctx, who, attributes{verb: "get", resource: resource, name: name})
				mu.Lock()
				if err != nil {
					failed = err
				} else if allowed {
					out[name] = true
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	asking.Wait()
	return out, failed
}

func (a *authorizer) remembered(sum [sha256.Size]byte) (allowed, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, known := a.verdicts[sum]
	age := refusedAge
	if v.allowed {
		age = allowedAge
	}
	return v.allowed, known && time.Since(v.given) < age
}

func (a *authorizer) remember(sum [sha256.Size]byte, allowed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verdicts) >= maxVerdicts {
		clear(a.verdicts)
	}
	a.verdicts[sum] = verdict{allowed, time.Now()}
}
