package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
)

// TestExplainSends runs the command against an API server: what it asks, what is printed in each format, and the status that it ends with.
func TestExplainSends(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "explain-send.json"))
	if err != nil {
		t.Fatal(err)
	}
	answer := func(change func(*api.ExplanationStatus)) string {
		e := read[explain.Explanation](t, text)
		s := api.ExplanationStatus{
			Reached: true, Sources: e.Sources, Sent: e.Sent, Ways: []api.ExplanationWay{{Dialled: "10.96.1.0:80", To: "pod red/db", Reached: true}},
		}
		if change != nil {
			change(&s)
		}
		line, err := json.Marshal(api.Explanation{Status: s})
		if err != nil {
			t.Fatal(err)
		}
		return string(line)
	}
	verdict := func(v string) func(*api.ExplanationStatus) {
		return func(s *api.ExplanationStatus) {
			s.Sent[0].Verdict = v
		}
	}
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods.inspect.atoll.dev \"friend\" is forbidden: User \"jo\" cannot create resource \"pods/ping\""}`
	for _, c := range []struct {
		name, args string
		code       int
		answer     string
		ends       int
		said, why  string
	}{
		{
			"as explained", "red/friend svc/red/db --port 80 --send", 201, answer(nil), 0, "Sent: a marked packet to 10.96.1.0:80: AS EXPLAINED\n",
			"",
		},
		{"as JSON", "red/friend svc/red/db --port 80 --send -o json", 201, answer(nil), 0, `"microseconds": 212`, ""},
		{"as YAML", "red/friend svc/red/db --port 80 --send -o yaml", 201, answer(nil), 0, "  verdict: as explained\n", ""},
		{
			"without", "red/friend svc/red/db --port 80 -o yaml", 201, answer(func(s *api.ExplanationStatus) { s.Sent = nil }), 0,
			"verdict: 'Reached: red/friend to svc/red/db, tcp port 80'\n", "",
		},
		{"it differs", "red/friend svc/red/db --port 80 --send", 201, answer(verdict(api.SentDiffers)), 3, "10.96.1.0:80: DIFFERS\n", ""},
		{
			"it cannot be told", "red/friend svc/red/db --port 80 --send", 201, answer(verdict(api.SentUnknown)), 2, "10.96.1.0:80: UNKNOWN\n",
			"cannot be told",
		},
		{
			"it is stopped, as explained", "red/friend svc/red/db --port 80 --send",
			201, answer(func(s *api.ExplanationStatus) { s.Reached, s.Ways[0].Reached = false, false }), 1, "AS EXPLAINED\n", "",
		},
		{"nothing is sent", "red/friend svc/red/db --port 80 --send", 201, answer(func(s *api.ExplanationStatus) {
			s.Reached, s.Ways[0].Reached, s.Sent, s.Unsent = false, false, nil, "nothing is sent: there is no endpoint"
		}), 1, "Sent: nothing. there is no endpoint\n", ""},
		{
			"an older API", "red/friend svc/red/db --port 80 --send", 201, answer(func(s *api.ExplanationStatus) { s.Sent = nil }), 2, "Reached",
			"older than this program",
		},
		{"who may not", "red/friend svc/red/db --port 80 --send", 403, forbidden, 2, "", `cannot create resource "pods/ping"`},
		{"from a node", "node/n1 svc/red/db --port 80 --send", 0, "", 2, "", "FROM must be a pod"},
		{"from outside", "outside svc/red/db --port 80 --send", 0, "", 2, "", "FROM must be a pod"},
		{"by sctp", "red/friend svc/red/db --port 80 --protocol sctp --send", 0, "", 2, "", "sctp are not sent"},
		{"by a database", "red/friend svc/red/db --port 80 --send --nb-address tcp:127.0.0.1:1", 0, "", 2, "", "leave out --nb-address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := kubeconfig(t, "http://127.0.0.1:1")
			if c.code != 0 {
				config = flowsAPI(t, c.code, "", c.answer)
			}
			ends, out, problems, err := runProgram(t.Context(), append([]string{"explain", "--kubeconfig", config}, strings.Fields(c.args)...)...)
			why := problems
			if err != nil {
				why += err.Error()
			}
			if ends != c.ends || !strings.Contains(out, c.said) || !strings.Contains(why, c.why) {
				t.Errorf("it ends with %d, and says %q; %s", ends, out, why)
			}
		})
	}
	var asked api.Explanation
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(answer(nil)))
	}))
	t.Cleanup(server.Close)
	if ends, _, _, err := runProgram(t.Context(), "explain", "--kubeconfig", kubeconfig(t, server.URL), "red/friend", "svc/red/db", "--port",
		"80", "--send"); ends != 0 || !asked.Spec.Send || asked.Spec.Port != 80 {
		t.Errorf("%v: it asks %+v", err, asked.Spec)
	}
}
