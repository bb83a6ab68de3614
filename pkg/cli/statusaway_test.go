package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatusWithoutControllers: while the API server reaches no controller, it is said that no namespace can be deleted. Control: not so where the
// API is not installed, which holds nothing up.
func TestStatusWithoutControllers(t *testing.T) {
	t.Parallel()
	const said = "no namespace of the cluster can be deleted"
	for code, want := range map[int32]bool{http.StatusServiceUnavailable: true, http.StatusNotFound: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasPrefix(r.URL.Path, "/apis/inspect.atoll.dev/") {
				_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}})
				return
			}
			reason := metav1.StatusReasonServiceUnavailable
			if code == http.StatusNotFound {
				reason = metav1.StatusReasonNotFound
			}
			w.WriteHeader(int(code))
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason})
		}))
		t.Cleanup(server.Close)
		status, out, problems, err := runProgram(t.Context(), "status", "--kubeconfig", kubeconfig(t, server.URL))
		if status != statusDifferences || strings.Contains(out, said) != want {
			t.Errorf("%d: status %d (%v), it should say so: %t\n%s%s", code, status, err, want, out, problems)
		}
	}
}
