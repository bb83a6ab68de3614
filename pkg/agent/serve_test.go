package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/atoll-net/atoll/pkg/agent/flows"
	"github.com/atoll-net/atoll/pkg/agent/verdicts"
)

// TestWhoIsToldOnTheNode: a process of the node is told of tenants' pods by the token of somebody who may get the path. All are
// told whether the agent runs, as the kubelet asks.
func TestWhoIsToldOnTheNode(t *testing.T) {
	t.Parallel()
	api := kubefake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authentication.TokenReview)
		review.Status.Authenticated, review.Status.User.Username = review.Spec.Token != "forged", review.Spec.Token
		return true, review, nil
	})
	api.PrependReactor("create", "subjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorization.SubjectAccessReview)
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = asked != nil && asked.Verb == "get" && asked.Path == review.Spec.User
		return true, review, nil
	})
	a := &Agent{flows: flows.New(flows.Config{}), verdicts: verdicts.New(verdicts.Config{})}
	local := a.local(prometheus.NewRegistry(), api)
	ask := func(path, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer := httptest.NewRecorder()
		local.ServeHTTP(answer, r)
		return answer.Code
	}
	for _, path := range []string{"/verdicts", "/flows"} {
		for token, want := range map[string]int{
			"": http.StatusUnauthorized, "forged": http.StatusUnauthorized, "/metrics": http.StatusForbidden,
		} {
			if got := ask(path, token); got != want {
				t.Errorf("%s with token %q is answered %d, want %d", path, token, got, want)
			}
		}
	}
	// Control: a question that the flows refuse has come to them.
	if got := ask("/flows?since=x", "/flows"); got != http.StatusBadRequest {
		t.Errorf("who may is answered %d", got)
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if got := ask(path, ""); got != http.StatusOK {
			t.Errorf("%s is answered %d", path, got)
		}
	}
}
