package inspectapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube/access"
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
	asking   singleflight.Group
	verdicts *access.Verdicts[bool]
}

func newAuthorizer(client kubernetes.Interface) *authorizer {
	return &authorizer{
		client: client, verdicts: &access.Verdicts[bool]{Good: true, GoodAge: allowedAge, BadAge: refusedAge, Most: maxVerdicts},
	}
}

// may reports whether somebody may do something. Its error is that the API server does not say.
func (a *authorizer) may(ctx context.Context, who access.User, what attributes) (bool, error) {
	spec := who.Asks()
	spec.ResourceAttributes = &authorization.ResourceAttributes{
		Verb: what.verb, Group: cmp.Or(what.group, api.GroupName), Version: version(what.group), Resource: what.resource,
		Subresource: what.subresource, Namespace: what.namespace, Name: what.name,
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	question := string(text)
	if allowed, known := a.verdicts.Recall(question); known {
		return allowed, nil
	}
	answers := a.asking.DoChan(question, func() (any, error) {
		// It is for others, too, who may have more time.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTime)
		defer cancel()
		allowed, err := access.May(ctx, a.client, spec)
		if err == nil {
			a.verdicts.Remember(question, allowed)
		}
		return allowed, err
	})
	select {
	case answer := <-answers:
		if answer.Err != nil {
			return false, answer.Err
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
func (a *authorizer) which(ctx context.Context, who access.User, resource string, names []string) (map[string]bool, error) {
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
