package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// shutOutServer is an API server with a list of nodes that are shut out, on which n3 is since a time. Its clock says now. written
// says whether the list was written.
func shutOutServer(t *testing.T, since string, now time.Time) (s *httptest.Server, written *bool) {
	t.Helper()
	written = new(bool)
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		object := map[string]any{
			"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"namespace": shutout.Namespace, "name": shutout.Name},
			"data": map[string]string{"n3": since},
		}
		switch r.Method {
		case http.MethodPost:
			if r.URL.Query().Get("dryRun") != "All" {
				t.Error("an object is made")
			}
			object["metadata"] = map[string]any{"namespace": shutout.Namespace, "name": "clock", "creationTimestamp": now.UTC().Format(time.RFC3339)}
			w.WriteHeader(http.StatusCreated)
		case http.MethodPut:
			text, _ := io.ReadAll(r.Body)
			*written = !strings.Contains(string(text), "n3")
		}
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(s.Close)
	return s, written
}

// TestAdmitAsksForOldCredentials: while the certificate of a node's kubelet may be good, its name is admitted only for whoever
// says that it is not.
func TestAdmitAsksForOldCredentials(t *testing.T) {
	now := time.Now()
	hourAgo := now.Add(-time.Hour).UTC().Format(time.RFC3339)
	yearAgo := now.Add(-shutout.CredentialLife - time.Hour).UTC().Format(time.RFC3339)
	for what, c := range map[string]struct {
		since    string
		flags    []string
		admitted bool
	}{
		"an hour ago":                {since: hourAgo},
		"nobody knows when":          {since: "yesterday"},
		"a year ago":                 {since: yearAgo, admitted: true},
		"old credentials have ended": {since: hourAgo, flags: []string{"--" + credentialsHaveEnded}, admitted: true},
	} {
		s, written := shutOutServer(t, c.since, now)
		status, out, problems := runAtoll(t, "", append([]string{"node", "admit", "n3", "--kubeconfig", kubeconfig(t, s.URL)}, c.flags...)...)
		if (status == 0) != c.admitted || *written != c.admitted {
			t.Errorf("%s: status %d, written %t: %s%s", what, status, *written, out, problems)
		}
		if !c.admitted && (!strings.Contains(problems, "may still be good") || !strings.Contains(problems, "under another name")) {
			t.Errorf("%s: %s", what, problems)
		}
	}
}
