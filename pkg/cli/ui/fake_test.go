package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
)

// cluster answers as client.Remote does, of values that a test has.
type cluster struct {
	networks   []api.Network
	topologies []api.Topology
	ipams      []api.IPAM
	pods       []api.Pod
	status     api.Cluster
	// explain answers questions.
	explain func(api.ExplanationSpec) (explain.Explanation, error)
	// namespaces are those that the user may ask about; nil: all.
	namespaces []string
	note       string
	// flows are what nodes keep at flowsNow; flowsAt are those that they keep now. refused is why they are not told, and asked are
	// the questions about them.
	flows      []api.Flow
	flowStatus api.FlowStatus
	refused    error
	mu         sync.Mutex
	asked      []flows.Question
	flowsAt    func(now time.Time) []api.Flow
	// views are the namespaces that a user without a Network may view; nil: the user may see all. broken has the error for each
	// namespace whose flows cannot be read.
	views  []string
	broken map[string]error
}

// notHis is how the API refuses.
func notHis(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: api.GroupName, Resource: resource}, "", fmt.Errorf("not his"))
}

// flowsOf are those that were judged at pods of a namespace that the user may view, without the names of others.
func (c *cluster) flowsOf(namespace string, flows []api.Flow) ([]api.Flow, error) {
	if err := c.broken[namespace]; err != nil {
		return nil, err
	}
	if !slices.Contains(c.views, namespace) {
		return nil, notHis("podflows")
	}
	var out []api.Flow
	for _, f := range flows {
		judged := f.To
		if f.Direction == model.PolicyEgress.String() {
			judged = f.From
		}
		if !strings.HasPrefix(judged.Name, namespace+"/") {
			continue
		}
		for _, end := range []*api.FlowEnd{&f.From, &f.To} {
			if of, _, _ := strings.Cut(end.Name, "/"); end.Kind == api.FlowPod && !slices.Contains(c.views, of) {
				*end = api.FlowEnd{Address: end.Address}
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// Flows tells of those of the ages that are asked for, as agents do.
func (c *cluster) Flows(
	_ context.Context, scope client.FlowScope, q flows.Question, each func(api.Flow) error, _ func(api.SilentNode),
) (api.FlowStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, q)
	if c.views != nil && scope == (client.FlowScope{}) {
		return api.FlowStatus{}, notHis("flows")
	}
	if c.refused != nil || c.views == nil && scope != (client.FlowScope{}) {
		return api.FlowStatus{}, c.refused
	}
	now, flows := flowsNow, c.flows
	if c.flowsAt != nil {
		now = time.Now()
		flows = c.flowsAt(now)
	}
	if scope.Namespace != "" {
		var err error
		if flows, err = c.flowsOf(scope.Namespace, flows); err != nil {
			return api.FlowStatus{}, err
		}
	}
	for _, f := range flows {
		if age := now.Sub(f.Last.Time); age <= q.Since && age >= q.Until {
			if err := each(f); err != nil {
				return api.FlowStatus{}, err
			}
		}
	}
	return c.flowStatus, nil
}

// questions is how often it was asked for flows.
func (c *cluster) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func (c *cluster) Cluster(context.Context) (api.Cluster, string, error) { return c.status, c.note, nil }

func (c *cluster) Networks(context.Context) ([]api.Network, string, error) {
	return slices.Clone(c.networks), c.note, nil
}

func (c *cluster) Topologies(context.Context) ([]api.Topology, string, error) {
	if c.views != nil {
		return nil, "", notHis("topologies")
	}
	return slices.Clone(c.topologies), c.note, nil
}

func (c *cluster) IPAMs(context.Context) ([]api.IPAM, string, error) {
	return slices.Clone(c.ipams), c.note, nil
}

func (c *cluster) Network(_ context.Context, name string) (api.Network, string, error) {
	return named(c.networks, name, func(n api.Network) string { return n.Name }, c.note)
}

func (c *cluster) Topology(_ context.Context, name string) (api.Topology, string, error) {
	return named(c.topologies, name, func(t api.Topology) string { return t.Name }, c.note)
}

func (c *cluster) IPAM(_ context.Context, name string) (api.IPAM, string, error) {
	return named(c.ipams, name, func(i api.IPAM) string { return i.Name }, c.note)
}

func (c *cluster) Pod(_ context.Context, key model.PodKey) (api.Pod, string, error) {
	for _, p := range c.pods {
		if p.Namespace == key.Namespace && p.Name == key.Name {
			return p, c.note, nil
		}
	}
	return api.Pod{}, "", &question.AbsentError{Object: "pod " + key.String()}
}

func (c *cluster) Pods(_ context.Context, namespace string) ([]api.Pod, string, error) {
	if c.namespaces != nil && !slices.Contains(c.namespaces, namespace) {
		return nil, "", apierrors.NewForbidden(schema.GroupResource{Group: api.GroupName, Resource: "pods"}, "", fmt.Errorf("not his"))
	}
	return slices.DeleteFunc(slices.Clone(c.pods), func(p api.Pod) bool { return namespace != "" && p.Namespace != namespace }), c.note, nil
}

func (c *cluster) Namespaces(context.Context) []string { return c.namespaces }

func (c *cluster) Explain(_ context.Context, spec api.ExplanationSpec) (explain.Explanation, error) {
	return c.explain(spec)
}

func named[O any](all []O, name string, nameOf func(O) string, note string) (O, string, error) {
	for _, o := range all {
		if nameOf(o) == name {
			return o, note, nil
		}
	}
	var none O
	return none, "", &question.AbsentError{Object: "Network " + name}
}

// golden is a value of the command line's golden files.
func golden[O any](t testing.TB, name string) (out O) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// site is a page without its guard.
type site struct {
	t      testing.TB
	server *Server
	routes http.Handler
}

func newSite(t testing.TB, source Source) *site {
	t.Helper()
	s := newServer(Config{Source: source, Timeout: time.Minute})
	s.now, s.zone = func() time.Time { return flowsNow }, time.UTC
	return &site{t, s, s.routes()}
}

// get is what a browser gets, whole.
func (s *site) get(path string) (status int, text string) {
	s.t.Helper()
	answer := httptest.NewRecorder()
	s.routes.ServeHTTP(answer, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

var (
	tag   = regexp.MustCompile(`(?s)<script.*?</script>|<[^>]*>`)
	space = regexp.MustCompile(`\s+`)
)

// words are what a reader reads of a page: without its tags, and with each space once.
func words(page string) string {
	return strings.TrimSpace(space.ReplaceAllString(html.UnescapeString(tag.ReplaceAllString(page, " ")), " "))
}

// says wants a page to have all of some words.
func (s *site) says(path string, want ...string) string {
	s.t.Helper()
	status, text := s.get(path)
	if status != http.StatusOK {
		s.t.Errorf("%s: status %d: %s", path, status, words(text))
	}
	s.has(path, text, want...)
	return text
}

func (s *site) has(path, text string, want ...string) {
	s.t.Helper()
	read := words(text)
	for _, w := range want {
		if !strings.Contains(read, strings.TrimSpace(space.ReplaceAllString(w, " "))) {
			s.t.Errorf("%s does not say %q", path, w)
		}
	}
	if s.t.Failed() {
		s.t.Logf("%s says: %s", path, read)
	}
}
