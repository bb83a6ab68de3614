package inspectapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// echo is an object of a resource that the product does not have, about a Network of a tenant.
type echo struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Tenant          string `json:"tenant"`
}

// echoes is the first row that a resource takes: what it is called, and how its objects are found.
func echoes() resources.Resource[echo] {
	list := func(context.Context, snapshot.Sources, string) ([]echo, error) {
		return []echo{
			{ObjectMeta: meta.ObjectMeta{Name: "acme"}, Tenant: "acme"}, {ObjectMeta: meta.ObjectMeta{Name: "umbrella"}, Tenant: "umbrella"},
		}, nil
	}
	return resources.Resource[echo]{
		Name: "echoes", Kind: "Echo", Noun: "Network", List: list,
		Whose: func(e *echo) (network, tenant string) { return e.Name, e.Tenant },
		Get: func(ctx context.Context, s snapshot.Sources, _, name string) (echo, bool, error) {
			all, err := list(ctx, s, "")
			at := slices.IndexFunc(all, func(e echo) bool { return e.Name == name })
			if err != nil || at < 0 {
				return echo{}, false, err
			}
			return all[at], true, nil
		},
	}
}

// apiServer hands requests of a user on to a world, as an API server does. While down is true, nobody answers there.
type apiServer struct {
	user atomic.Pointer[string]
	down atomic.Bool
}

// remote asks by it.
func (a *apiServer) remote(t *testing.T, w *world) *client.Remote {
	t.Helper()
	to, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: w.client.Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set("X-Remote-User", *a.user.Load())
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.down.Load() {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "it", "contexts":
[{"name": "it", "context": {"cluster": "it"}}], "clusters": [{"name": "it", "cluster": {"server": %q}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := client.NewRemote(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAResourceIsTwoRows: a resource that nothing else knows is a row that says how its objects are found, and one that has it
// served. Discovery names it then, RBAC decides who may read it, lists are cut, and clients ask for it by the first row, and find
// its objects themselves where nobody answers. The control is a server without the second row.
func TestAResourceIsTwoRows(t *testing.T) {
	t.Parallel()
	for _, served := range []bool{true, false} {
		w := newWorldOf(t, func(h *handler) http.Handler {
			if served {
				h.answers.Reads = append(h.answers.Reads, readOf(echoes(), snapshot.Sources{}))
			}
			return h.mux()
		})
		var server apiServer
		remote := server.remote(t, w)
		names := func(user string) (string, error) {
			server.user.Store(&user)
			all, note, err := client.List(t.Context(), remote, echoes(), "")
			if note != "" {
				err = errors.Join(err, errors.New(note))
			}
			var out []string
			for _, e := range all {
				out = append(out, e.Name)
			}
			return strings.Join(out, " "), err
		}
		if _, told := w.ask(t, w.client, "ann", ""); strings.Contains(told, `"name":"echoes","singularName":"echo"`) != served {
			t.Errorf("served %t: discovery is %s", served, told)
		}
		if !served {
			if got, err := names("operator"); err == nil {
				t.Errorf("nobody serves them, and there are %s", got)
			}
			continue
		}
		for user, want := range map[string]string{"operator": "acme umbrella", "jo": "acme"} {
			if got, err := names(user); err != nil || got != want {
				t.Errorf("%s is listed %q, %v; want %q", user, got, err, want)
			}
		}
		if got, err := names("ann"); !apierrors.IsForbidden(err) {
			t.Errorf("ann is listed %q, %v", got, err)
		}
		get := func(user, name string) error {
			server.user.Store(&user)
			one, note, err := client.Get(t.Context(), remote, echoes(), "", name)
			if err == nil && (note != "" || one.Tenant != name) {
				t.Errorf("%s gets %+v, %s", user, one, note)
			}
			return err
		}
		if err := errors.Join(get("operator", "umbrella"), get("jo", "acme")); err != nil {
			t.Error(err)
		}
		if err := get("jo", "umbrella"); !apierrors.IsForbidden(err) {
			t.Errorf("jo gets what is somebody else's: %v", err)
		}
		err := get("operator", "none")
		if _, absent := errors.AsType[*question.AbsentError](err); !absent {
			t.Errorf("one that is not there: %v", err)
		}
		server.down.Store(true)
		if got, err := names("ann"); got != "acme umbrella" || err == nil || !strings.Contains(err.Error(), "what Kubernetes tells") {
			t.Errorf("where nobody answers, there are %q, %v", got, err)
		}
	}
}
