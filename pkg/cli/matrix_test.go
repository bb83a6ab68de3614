package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// wired is an API server that knows pods of two Networks, says of paths what is expected, and answers pings as paths are.
type wired struct {
	*httptest.Server
	t *testing.T
	// pods are names of pods, as NAMESPACE/NAME, by Network; a Network's namespace has its name.
	pods map[string][]string
	// shut are paths on which a packet is dropped, closed those of which an explanation says so, as "FROM TO".
	shut, closed map[string]bool
	// refused are why packets cannot be sent from a pod, with the status.
	refused map[string]meta.Status
	// onlyOwn: the user may list pods of namespaces alone.
	onlyOwn bool

	mu sync.Mutex
	// now and most count pings at once; turnedAway how many more are told that there are too many.
	now, most, turnedAway int
	pings                 map[string]int
}

func newWired(t *testing.T, pods map[string][]string) *wired {
	t.Helper()
	w := &wired{
		t: t, pods: pods, shut: map[string]bool{}, closed: map[string]bool{}, refused: map[string]meta.Status{}, pings: map[string]int{},
	}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *wired) say(out http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		w.t.Error(err)
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(code)
	_, _ = out.Write(text)
}

func status(code int, reason meta.StatusReason, message string) meta.Status {
	return meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure, Code: int32(code), Reason: reason,
		Message: message, Details: &meta.StatusDetails{Name: "x"},
	}
}

func (w *wired) podsOf(network string) (out []api.Pod) {
	for i, name := range w.pods[network] {
		var p api.Pod
		p.Namespace, p.Name, _ = strings.Cut(name, "/")
		p.Status.Network, p.Status.Node, p.Status.Addresses = network, fmt.Sprintf("n%d", i%2+1), []string{fmt.Sprintf("10.0.0.%d", i+2)}
		out = append(out, p)
	}
	return out
}

func (w *wired) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/inspect.atoll.dev/v1alpha1/"), "/")
	switch {
	case path[0] == "networks" && len(path) == 1:
		var list api.NetworkList
		for _, name := range slices.Sorted(maps.Keys(w.pods)) {
			var n api.Network
			n.Name, n.Status.Tenant = name, "acme"
			list.Items = append(list.Items, n)
		}
		w.say(out, http.StatusOK, list)
	case path[0] == "networks" && w.pods[path[1]] == nil:
		w.say(out, http.StatusNotFound, status(http.StatusNotFound, meta.StatusReasonNotFound, "not found"))
	case path[0] == "networks":
		w.say(out, http.StatusOK, api.Network{Status: api.NetworkStatus{Detail: &api.NetworkDetail{Namespaces: []string{path[1]}}}})
	case path[0] == "pods" && w.onlyOwn, path[0] == "explanations" && w.onlyOwn:
		w.say(out, http.StatusForbidden, status(http.StatusForbidden, meta.StatusReasonForbidden, "is forbidden"))
	case path[0] == "pods":
		var list api.PodList
		for _, network := range slices.Sorted(maps.Keys(w.pods)) {
			list.Items = append(list.Items, w.podsOf(network)...)
		}
		w.say(out, http.StatusOK, list)
	case path[len(path)-1] == "pods":
		w.say(out, http.StatusOK, api.PodList{Items: w.podsOf(path[1])})
	case path[len(path)-1] == "explanations":
		w.explain(out, r)
	case path[len(path)-1] == "ping":
		w.ping(out, r, path[1]+"/"+path[3])
	default:
		w.t.Errorf("asked is %s", r.URL.Path)
	}
}

func (w *wired) explain(out http.ResponseWriter, r *http.Request) {
	var q api.Explanation
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.t.Error(err)
	}
	reached := !w.closed[q.Spec.From+" "+q.Spec.To]
	step := api.ExplanationStep{Layer: "policy", OK: reached, What: "pod " + q.Spec.To + " may receive it or not"}
	q.Status = api.ExplanationStatus{
		Reached: reached, Ways: []api.ExplanationWay{{Dialled: "10.0.0.9", Reached: reached, There: []api.ExplanationStep{step}}},
	}
	w.say(out, http.StatusCreated, q)
}

func (w *wired) ping(out http.ResponseWriter, r *http.Request, from string) {
	var q api.PodPing
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	w.now++
	w.most = max(w.most, w.now)
	w.pings[from+" "+q.Spec.To]++
	away := w.turnedAway > 0
	if away {
		w.turnedAway--
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now--
		w.mu.Unlock()
	}()
	if away {
		w.say(out, http.StatusTooManyRequests,
			status(http.StatusTooManyRequests, meta.StatusReasonTooManyRequests, "you have 4 pings already, and no more at once"))
		return
	}
	if why, is := w.refused[from]; is {
		w.say(out, int(why.Code), why)
		return
	}
	reply := `{"reply":{"address":"10.0.0.9","number":1,"answered":true,"took":"1ms"}}`
	if w.shut[from+" "+q.Spec.To] {
		reply = `{"reply":{"address":"10.0.0.9","number":1,"answered":false,"why":"no answer within 1s"}}`
	}
	_, _ = io.WriteString(out, reply+"\n"+`{"end":true}`+"\n")
}

func two() map[string][]string {
	return map[string][]string{"red": {"red/web-0", "red/web-1", "red/web-2"}, "blue": {"blue/db-0", "blue/db-1"}}
}

// TestMatrixGolden prints matrices, as they end: with all as expected, with paths that are not, and with paths that could not be tried.
func TestMatrixGolden(t *testing.T) {
	t.Parallel()
	apart := func(w *wired) {
		for _, red := range w.pods["red"] {
			for _, blue := range w.pods["blue"] {
				for _, path := range []string{red + " " + blue, blue + " " + red} {
					w.shut[path], w.closed[path] = true, true
				}
			}
		}
	}
	for name, c := range map[string]struct {
		args   []string
		change func(*wired)
		status int
	}{
		"well":    {[]string{"red"}, func(*wired) {}, statusDone},
		"two":     {[]string{"red", "blue"}, apart, statusDone},
		"tenant":  {[]string{"--tenant", "acme", "--pods-per", "1"}, apart, statusDone},
		"one way": {[]string{"red", "--port", "8080"}, func(w *wired) { w.shut["red/web-0 red/web-2"] = true }, statusDifferences},
		"leak": {
			[]string{"red", "blue", "-o", "wide"}, func(w *wired) { apart(w); w.shut["red/web-1 blue/db-0"] = false }, statusDifferences,
		},
		"forbidden": {[]string{"red"}, func(w *wired) { w.onlyOwn = true; w.turnedAway = 6 }, statusDone},
		"no agent": {[]string{"red"}, func(w *wired) {
			w.refused["red/web-1"] = status(http.StatusGatewayTimeout, meta.StatusReasonTimeout,
				"ask the agent of node n2: connection refused\x1b[2J")
		}, statusFailed},
		"no agent and one way": {[]string{"red", "-o", "json"}, func(w *wired) {
			w.refused["red/web-1"] = status(http.StatusGatewayTimeout, meta.StatusReasonTimeout, "ask the agent of node n2: connection refused")
			w.shut["red/web-0 red/web-2"] = true
		}, statusDifferences},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWired(t, two())
			c.change(w)
			code, out, problems := runAtoll(t, "", append([]string{"matrix", "--kubeconfig", kubeconfig(t, w.URL)}, c.args...)...)
			if code != c.status || (code == statusFailed) != strings.Contains(problems, "could not be tried") {
				t.Errorf("status %d, want %d: %s\n%s", code, c.status, problems, out)
			}
			if w.most > 4 {
				t.Errorf("%d pings are asked for at once", w.most)
			}
			for path, n := range w.pings {
				if differs := w.shut[path] != w.closed[path]; differs && n != 3 {
					t.Errorf("%s is not as expected after it was tried %d times", path, n)
				}
			}
			golden(t, filepath.Join("testdata", "matrix-"+strings.ReplaceAll(name, " ", "-")+".txt"), out)
		})
	}
}

// TestMatrixForgetsWhatDoesNotLast: a path that is as expected when it is tried again is as expected.
func TestMatrixForgetsWhatDoesNotLast(t *testing.T) {
	t.Parallel()
	w := newWired(t, two())
	w.shut["red/web-0 red/web-1"] = true
	open := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.ServeHTTP(out, r)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pings["red/web-0 red/web-1"] > 0 {
			delete(w.shut, "red/web-0 red/web-1")
		}
	}))
	t.Cleanup(open.Close)
	if code, out, problems := runAtoll(t, "", "matrix", "--kubeconfig", kubeconfig(t, open.URL),
		"red"); code != statusDone || w.pings["red/web-0 red/web-1"] != 2 {
		t.Errorf("status %d after %v\n%s%s", code, w.pings, out, problems)
	}
}

// TestMatrixThatCannotTry wants an error that says why, and what to do.
func TestMatrixThatCannotTry(t *testing.T) {
	t.Parallel()
	w := newWired(t, map[string][]string{"red": {"red/web-0"}, "blue": {"blue/db-0"}, "big": nil})
	for i := range 50 {
		w.pods["big"] = append(w.pods["big"], fmt.Sprintf("big/p-%d", i))
	}
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	for _, c := range []struct {
		server, args, says string
	}{
		{w.URL, "", "name a Network"},
		{w.URL, "red --tenant acme", "--tenant"},
		{w.URL, "red red", "both Networks are red"},
		{w.URL, "red --protocol tcp", "--port"},
		{w.URL, "red --protocol icmp --port 80", "--port"},
		{w.URL, "red --protocol sctp --port 80", "--protocol"},
		{w.URL, "red --pods-per 0", "--pods-per"},
		{w.URL, "red -o dot", "--output"},
		{w.URL, "red", "there are no two pods"},
		{w.URL, "green", "Network green does not exist"},
		{w.URL, "--tenant umbrella", "tenant umbrella has no Network that you may get"},
		{w.URL, "big red --pods-per 40", "--pods-per 20"},
		{none.URL, "red", "the cluster has no API inspect.atoll.dev"},
	} {
		code, out, problems := runAtoll(t, "", append([]string{"matrix", "--kubeconfig", kubeconfig(t, c.server)}, strings.Fields(c.args)...)...)
		if code != statusFailed || out != "" || !strings.Contains(problems, c.says) {
			t.Errorf("%s: status %d, %s\n%s", c.args, code, problems, out)
		}
	}
}
