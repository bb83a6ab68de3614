package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusWithoutControllers: while the API server reaches no controller, it is said that no namespace can be deleted. Control:
// not so where the API is not installed, or a controller answers that it is not ready, which hold nothing up.
func TestStatusWithoutControllers(t *testing.T) {
	t.Parallel()
	const said = "no namespace of the cluster can be deleted"
	for name, c := range map[string]struct {
		code   int32
		reason metav1.StatusReason
		want   bool
	}{
		"reaches nobody": {http.StatusServiceUnavailable, "", true},
		"not ready":      {http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, false},
		"no such API":    {http.StatusNotFound, metav1.StatusReasonNotFound, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.reason == "" && strings.HasPrefix(r.URL.Path, "/apis/inspect.atoll.dev/") {
				http.Error(w, "service unavailable", int(c.code)) // As the API server itself says it.
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasPrefix(r.URL.Path, "/apis/inspect.atoll.dev/") {
				_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}})
				return
			}
			w.WriteHeader(int(c.code))
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: c.code, Reason: c.reason, Message: "not yet",
			})
		}))
		t.Cleanup(server.Close)
		status, out, problems, err := runProgram(t.Context(), "status", "--kubeconfig", kubeconfig(t, server.URL))
		if status != statusDifferences || strings.Contains(out, said) != c.want {
			t.Errorf("%s: status %d (%v), it should say so: %t\n%s%s", name, status, err, c.want, out, problems)
		}
	}
}
