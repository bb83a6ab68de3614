package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
)

// The lines of an answer about flows.
const (
	lineAllowed = `{"flow":{"network":"red","from":{"address":"10.0.0.6","kind":"pod","name":"red/web-0"},"to":{"address":"10.0.1.5","kind":"pod","name":"red/db-0"},"protocol":"tcp","port":5432,"verdict":"allow",` +
		`"policy":"NetworkPolicy/red/db-from-web","rule":"0","direction":"Ingress","node":"n1","minute":"2026-05-04T10:01:00Z","last":"2026-05-04T10:01:05.000000Z","connections":2,"packets":2,"bytes":120}}`
	lineAgain = `{"flow":{"network":"red","from":{"address":"10.0.0.6","kind":"pod","name":"red/web-0"},"to":{"address":"10.0.1.5","kind":"pod","name":"red/db-0"},"protocol":"tcp","port":5432,"verdict":"allow",` +
		`"policy":"NetworkPolicy/red/db-from-web","rule":"0","direction":"Ingress","node":"n1","minute":"2026-05-04T10:03:00Z","last":"2026-05-04T10:03:07.000000Z","connections":3,"packets":3,"bytes":180}}`
	lineDropped = `{"flow":{"network":"red","from":{"address":"203.0.113.9","kind":"outside"},"to":{"address":"10.0.1.5","kind":"pod","name":"red/db-0\u001b[2J"},"protocol":"icmp","verdict":"drop",` +
		`"policy":"isolation","direction":"Ingress","node":"n1","minute":"2026-05-04T10:02:00Z","last":"2026-05-04T10:02:06.000000Z","connections":1,"packets":1,"bytes":60}}`
	lineFolded  = `{"flow":{"network":"red","from":{},"to":{},"verdict":"drop","policy":"isolation","direction":"Ingress","minute":"2026-05-04T10:04:00Z","last":"2026-05-04T10:04:08.000000Z","connections":9,"packets":9,"bytes":9}}`
	lineWhole   = `{"end":{"nodes":3}}`
	lineSilent  = `{"end":{"nodes":0,"silent":[{"node":"n2","why":"connection refused"}]}}`
	linePartial = `{"end":{"nodes":2,"silent":[{"node":"n2","why":"connection refused"}],"others":4,"cut":true}}`
)

// flowsAPI is an API server that answers with lines, or with a status.
func flowsAPI(t *testing.T, status int, asks string, lines ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := strings.TrimPrefix(r.URL.RequestURI(), "/apis/inspect.atoll.dev/v1alpha1/"); got != asks && asks != "" {
			t.Errorf("it is asked for %s, want %s", got, asks)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	}))
	t.Cleanup(server.Close)
	return kubeconfig(t, server.URL)
}

// runProgram runs the program.
func runProgram(ctx context.Context, args ...string) (status int, out, problems string, err error) {
	var text, trouble bytes.Buffer
	cmd := Command("atoll")
	cmd.SetArgs(args)
	cmd.SetOut(&text)
	cmd.SetErr(&trouble)
	err = cmd.ExecuteContext(ctx)
	return ExitStatus(err), text.String(), trouble.String(), err
}

// TestFlows runs the commands against an API server: what they ask, what is printed, and the status that they end with.
func TestFlows(t *testing.T) {
	t.Parallel()
	const (
		forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"flows.inspect.atoll.dev is forbidden: User \"jo\" cannot list resource \"flows\""}`
		off       = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"flows are not sampled: flows.sampling of the AtollConfig is Off. Next: kubectl patch"}`
	)
	for _, c := range []struct {
		name, args string
		asks       string
		code       int
		lines      []string
		ends       int
		said, why  string
	}{
		{
			"a Network", "flows red", "flows/red?since=10m0s", 200,
			[]string{lineAllowed, lineDropped, lineAgain, lineFolded, lineWhole},
			0,
			"3 flows in the last 10m, told by 3 nodes.\n", "",
		},
		{
			"of a namespace", "drops -n red --since 1h", "namespaces/red/podflows?drops=true&since=1h0m0s", 200,
			[]string{lineWhole},
			0,
			"No flow that did not get through in the last 1h, told by 3 nodes. Pods that no policy selects have none.\n", "",
		},
		{
			"of a namespace in a Network", "flows red -n ci", "flows/red?namespace=ci&since=10m0s", 200,
			[]string{lineWhole},
			0,
			"No flow in the last 10m, told by 3 nodes.", "",
		},
		{"of a pod", "flows --pod red/db-0", "namespaces/red/podflows?pod=red%2Fdb-0&since=10m0s", 200, []string{lineWhole}, 0, "No flow", ""},
		{
			"of a pod of a namespace", "flows -n red --pod db-0", "namespaces/red/podflows?pod=red%2Fdb-0&since=10m0s", 200,
			[]string{lineWhole},
			0, "No flow", "",
		},
		{"of all", "flows", "flows?since=10m0s", 200, []string{lineAllowed, lineWhole}, 0, "1 flow in the last 10m, told by 3 nodes.\n", ""},
		{
			"wide", "flows red -o wide", "", 200,
			[]string{lineAllowed, lineWhole},
			0,
			"red       red/web-0 (10.0.0.6)   red/db-0 (10.0.1.5)   tcp 5432   allow     NetworkPolicy/red/db-from-web   2       Ingress     " +
				"0      n1     2         120\n", "",
		},
		{
			"in part", "flows red", "", 200,
			[]string{lineAllowed, linePartial},
			1, "1 flow in the last 10m, told by 2 nodes.",
			"not all is told. Missing are flows of node n2: connection refused; flows of 4 more nodes that have no pods of it now; older flows",
		},
		{
			"in part, and nothing", "flows red", "", 200,
			[]string{linePartial},
			1, "No flow in the last 10m, told by 2 nodes.",
			"Next: kubectl -n atoll-system get pods",
		},
		{
			"by no node", "flows red", "", 200,
			[]string{lineSilent},
			2, "",
			"flows: nothing is known: not all is told. Missing are flows of node n2: connection refused. Next: kubectl -n atoll-system get pods",
		},
		{"by no node, as JSON", "flows red -o json", "", 200, []string{lineSilent}, 2, "", "nothing is known"},
		{"by a node that then fails", "flows red", "", 200, []string{lineAllowed, lineSilent}, 1, "1 flow in the last 10m", "not all is told"},
		{"as JSON", "flows red -o json", "", 200, []string{lineAllowed, linePartial}, 1, `"kind": "FlowList"`, "not all is told"},
		{"as YAML", "flows red -o yaml", "", 200, []string{lineAllowed, lineWhole}, 0, "policy: NetworkPolicy/red/db-from-web", ""},
		{"cut off", "flows red", "", 200, []string{lineAllowed}, 2, "", "it is not whole"},
		{"failed", "flows red", "", 200, []string{lineAllowed, `{"error":"you may no more"}`}, 2, "", "you may no more"},
		{"forbidden", "flows", "", 403, []string{forbidden}, 2, "", "Next: name a NETWORK of yours, or a namespace (-n)"},
		{"forbidden in a Network", "flows blue", "", 403, []string{forbidden}, 2, "", `cannot list resource "flows"`},
		{"off", "flows red", "", 409, []string{off}, 2, "", "flows.sampling of the AtollConfig is Off. Next: kubectl patch"},
		{
			"no API", "flows red", "", 404,
			[]string{"404 page not found"},
			2, "",
			"has no API inspect.atoll.dev that tells of flows: it is not installed (dist/inspect), or older than this program. Flows " +
				"are kept by the nodes' agents",
		},
		{
			"API away", "flows red", "", 503,
			[]string{"service unavailable"},
			2, "",
			"the API inspect.atoll.dev does not answer (kubectl describe apiservice v1alpha1.inspect.atoll.dev)",
		},
		{"no pod", "flows --pod db-0", "", 200, nil, 2, "", "--pod"},
		{"no age", "flows red --since -1m", "", 200, nil, 2, "", "--since"},
		{"no format", "flows red -o name", "", 200, nil, 2, "", "--output"},
		{"two Networks", "flows red blue", "", 200, nil, 2, "", "accepts at most 1 arg"},
		{
			"followed", "flows red --follow", "flows?network=red&watch=true", 200,
			[]string{
				"{}", lineAllowed, `{"silent":{"node":"n2","why":"connection refused"}}`, lineDropped, `{"silent":{"node":"n2","why":""}}`,
				`{"error":"what is followed was made anew"}`,
			},
			2,
			"red        outside 203.0.113.9    red/db-0", "what is followed was made anew",
		},
		{
			"followed of a namespace", "drops -n red -f --since 5m", "namespaces/red/podflows?drops=true&since=5m0s&watch=true", 200,
			[]string{lineDropped},
			2, "isolation", "it is not whole",
		},
		{
			"followed as JSON", "flows red -f -o json", "", 200,
			[]string{lineDropped},
			2, `{"network":"red","from":{"address":"203.0.113.9"`,
			"not whole",
		},
	} {
		args := append(strings.Fields(c.args), "--kubeconfig", flowsAPI(t, c.code, c.asks, c.lines...))
		status, out, problems, err := runProgram(t.Context(), args...)
		if status != c.ends || !strings.Contains(problems+fmt.Sprint(err), c.why) || !strings.Contains(out, c.said) ||
			strings.Contains(out, "\x1b[") && !strings.Contains(c.args, "json") {
			t.Errorf("%s: it ends with %d (%v), want %d, %q; it says\n%s\nand beside it %s; want %s", c.name, status, err, c.ends, c.why, out,
				problems, c.said)
		}
	}
}

// TestWhoStopsFollowing: a user who stops following gets exit status 0, or 1 if a node is still missing.
func TestWhoStopsFollowing(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		var out, problems bytes.Buffer
		err := followFlows(ctx,
			flowsOptions{asked: asked{output: formatTable}}, func(_ func(api.Flow) error, missing func(api.SilentNode)) error {
				missing(api.SilentNode{Node: "n2", Why: "connection refused"})
				if !lost {
					missing(api.SilentNode{Node: "n2"})
				}
				stop()
				return ctx.Err()
			}, &out, &problems)
		if want := map[bool]int{false: 0, true: 1}[lost]; ExitStatus(err) != want ||
			!strings.Contains(problems.String(), "flows of node n2 are missing from now on: connection refused") {
			t.Errorf("lost %t: %v, %s", lost, err, problems.String())
		}
	}
}

// TestFlowsAreATable: flows that differ only by their minute are one line, and lines are in the order of the last time. A followed
// flow is aligned with the lines before it.
func TestFlowsAreATable(t *testing.T) {
	t.Parallel()
	var list api.FlowList
	lines := &flowLines{zone: time.UTC}
	followed := ""
	for _, text := range []string{lineAllowed, strings.Replace(lineDropped, `\u001b[2J`, "", 1), lineAgain, lineFolded} {
		l := read[api.FlowLine](t, []byte(text))
		list.Items = append(list.Items, *l.Flow)
		followed += lines.text(*l.Flow)
	}
	list.Status.Nodes = 3
	var out strings.Builder
	flowsTable(&out, list, flows.Question{FlowQuestion: model.FlowQuestion{Since: time.Hour}}, false, time.UTC)
	if want := `TIME       NETWORK   FROM                  TO         PORT       VERDICT   POLICY                          COUNT
10:02:06   red       outside 203.0.113.9   red/db-0   icmp       drop      isolation                       1
10:03:07   red       red/web-0             red/db-0   tcp 5432   allow     NetworkPolicy/red/db-from-web   5
10:04:08   red       several               several    -          drop      isolation                       9

3 flows in the last 1h, told by 3 nodes.
`; out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	for i, want := range []string{
		"TIME       NETWORK    FROM                   TO                     PORT       VERDICT   POLICY                     COUNT",
		"10:01:05   red        red/web-0              red/db-0               tcp 5432   allow     NetworkPolicy/red/db-from-web   2",
		"10:02:06   red        outside 203.0.113.9",
		"10:03:07   red        red/web-0              red/db-0               tcp 5432   allow     NetworkPolicy/red/db-from-web   3",
		"10:04:08   red        several                several                -          drop      isolation",
	} {
		if got := strings.Split(followed, "\n")[i]; !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b") {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}
