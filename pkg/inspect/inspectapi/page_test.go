package inspectapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/cli/ui"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
)

// pageOf starts the page of `atoll ui` for a user, behind a fake API server that names the user and forwards requests. It returns a
// function that fetches a path of the page.
func (w *flowWorld) pageOf(t *testing.T, user string) func(path string) string {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/apis/inspect.atoll.dev/") {
			to.Header().Set("Content-Type", "application/json")
			to.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(to,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"he may list no namespaces"}`)
			return
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, w.URL+r.URL.RequestURI(), r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header.Set("X-Remote-User", user)
		request.Header.Set("X-Remote-Group", "system:authenticated")
		answer, err := w.client.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		to.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		to.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(to, answer.Body)
	}))
	t.Cleanup(front.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text :=
		`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}],"clusters":[{"name":"c","cluster":{"server":"` + front.URL + `"}}]}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	remote, err := client.NewRemote(config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := ui.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// The user may name any namespace; the API decides which of these the user may see.
	page, err := ui.New(listener, ui.Config{Source: remote, Namespaces: []string{"umbrella", "acme", "nobodys"}, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- page.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(address string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	get(page.Address())
	root, _, _ := strings.Cut(page.Address(), "/?")
	return func(path string) string { return get(root + path) }
}

// TestAViewerSeesHisPodsFlows: a user with the role view in a namespace sees the flows of its pods, on the map and in the table.
// Another tenant with the same addresses stays hidden: when the user names that tenant's namespace, at the other end of the user's
// own flows, and when agents send all flows. The controls are a user who may view both namespaces, with two pods each, and a user
// who may view no flows.
func TestAViewerSeesHisPodsFlows(t *testing.T) {
	t.Parallel()
	for _, leaky := range []bool{false, true} {
		w := newFlowWorld(t)
		w.leaky = leaky
		now := time.Now()
		flow := func(network, verdict string) model.Flow {
			f := w.flow(network, 0, verdict)
			f.Minute, f.Last = now.Truncate(time.Minute), now
			return f
		}
		// The other tenant's pod reaches acme's pod from its face address.
		across := flow("acme", "drop")
		across.Source = netip.MustParseAddr("100.64.0.4")
		w.kept = map[string][]model.Flow{"n1": {flow("acme", "allow"), flow("umbrella", "allow"), across}, "n2": {flow("umbrella", "drop")}}
		const acme, others, umbrella, refused, faced = "end/pod/acme/db>end/pod/acme/web allowed", "end/others>end/pod/acme/web dropped",
			"end/pod/umbrella/db>end/pod/umbrella/web allowed",
			"end/pod/umbrella/db>end/pod/umbrella/web dropped", "end/pod/umbrella/db>end/pod/acme/web dropped"
		for _, c := range []struct {
			user  string
			edges []string
			says  string
			// knows: the page names the other tenant.
			knows bool
		}{
			{"val", []string{others, acme}, "these are the flows of pods in namespace acme", false},
			{"vic", []string{faced, acme, umbrella, refused}, "these are the flows of pods in namespaces umbrella, acme", true},
			{"eve", nil, "you may not see any here", false},
		} {
			get := w.pageOf(t, c.user)
			text := get("/graph/flows")
			var o struct {
				Nodes []struct{ ID string }
				Edges []struct{ From, To, Link, State string }
				Why   string
				Note  string
			}
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatalf("%s: %v: %s", c.user, err, text)
			}
			var edges []string
			for _, e := range o.Edges {
				edges = append(edges, e.From+">"+e.To+" "+map[string]string{"good": "allowed", "bad": "dropped"}[e.State])
				for _, end := range []string{e.From, e.To} {
					if !slices.ContainsFunc(o.Nodes, func(n struct{ ID string }) bool { return n.ID == end }) {
						t.Errorf("%s: a line leads to %s, which has no box", c.user, end)
					}
				}
			}
			slices.Sort(edges)
			want := slices.Clone(c.edges)
			slices.Sort(want)
			if !slices.Equal(edges, want) || !strings.Contains(o.Note+o.Why, c.says) {
				t.Errorf("%s (agents tell everything: %t) sees %q, %s%s; want %q", c.user, leaky, edges, o.Note, o.Why, want)
			}
			// The page does not say which namespaces were refused, either.
			pages := text + get("/graph") + get("/flows") + get("/line?from=pod+acme/db&to=pod+acme/web&verdict=allowed") +
				get("/line?from=pod+umbrella/db&to=pod+umbrella/web&verdict=allowed")
			if c.user != "eve" && !strings.Contains(pages, "10.0.0.6") && !strings.Contains(pages, "acme/db") {
				t.Errorf("%s: the pages have nothing of acme: %s", c.user, pages)
			}
			own := strings.NewReplacer("pod umbrella/db", "", "pod umbrella/web", "").Replace(pages)
			if named := strings.Contains(own, "umbrella"); named != c.knows {
				t.Errorf("%s (agents tell everything: %t): the other tenant is named: %t\n%s", c.user, leaky, named, own)
			}
		}
	}
}
