package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

// home is the map with nothing beside it yet.
func (*Server) home(context.Context, *http.Request) (view, error) {
	return view{Template: "home", Title: "Networks"}, nil
}

func (s *Server) status(ctx context.Context, _ *http.Request) (view, error) {
	v := view{Template: "status", Title: "Status"}
	c, note, err := s.config.Source.Cluster(ctx)
	if err != nil {
		return v, fmt.Errorf("status: %w", err)
	}
	v.Data, v.Note, v.Said = c.Status, note, model.Count(len(c.Status.Problems), "problem")
	return v, nil
}

// networks is the table of `atoll networks -o wide`: of all, or of a tenant's.
func (s *Server) networks(ctx context.Context, r *http.Request) (view, error) {
	v := view{Template: "networks", Title: "Networks"}
	all, note, err := s.config.Source.Networks(ctx)
	if err != nil {
		return v, fmt.Errorf("networks: %w", err)
	}
	if tenant, only := r.URL.Query()["tenant"]; only {
		v.Title = "Networks of " + topology.TenantWords(tenant[0])
		all = slices.DeleteFunc(all, func(n api.Network) bool { return n.Status.Tenant != tenant[0] })
	}
	v.Data, v.Note, v.Said = all, note, model.Count(len(all), "Network")
	return v, nil
}

// networkData is what `atoll network` and `atoll topology` tell of one.
type networkData struct {
	api.Network
	Topology api.TopologyStatus
	// Missing says what is not known beside the Network itself.
	Missing string
}

// Details are those of the Network; empty where there are none.
func (n networkData) Details() api.NetworkDetail {
	if n.Status.Detail == nil {
		return api.NetworkDetail{}
	}
	return *n.Status.Detail
}

func (s *Server) network(ctx context.Context, r *http.Request) (view, error) {
	name := r.PathValue("name")
	v := view{Template: "network", Title: "Network " + name}
	n, note, err := s.config.Source.Network(ctx, name)
	if err != nil {
		return v, fmt.Errorf("network: %w", err)
	}
	data := networkData{Network: n}
	if t, _, err := s.config.Source.Topology(ctx, name); err != nil {
		data.Missing = fmt.Sprintf("topology: %v", err)
	} else {
		data.Topology = t.Status
	}
	v.Data, v.Note, v.Open = data, note, []string{name}
	v.Said = fmt.Sprintf("Network %s: %s, %s", name, n.Status.Phase, model.Count(int(n.Status.Pods), "pod"))
	return v, nil
}

// maxPods is how many pods are in one table.
const maxPods = 500

// podsData are the pods of a Network.
type podsData struct {
	Network string
	Pods    []api.Pod
	More    int
}

func (s *Server) pods(ctx context.Context, r *http.Request) (view, error) {
	name := r.PathValue("name")
	v := view{Template: "pods", Title: "Pods of Network " + name}
	n, note, err := s.config.Source.Network(ctx, name)
	if err != nil {
		return v, fmt.Errorf("network: %w", err)
	}
	pods, podNote, err := podsIn(ctx, s.config.Source, n)
	if err != nil {
		return v, fmt.Errorf("pods: %w", err)
	}
	if note == "" {
		note = podNote
	}
	data := podsData{Network: name, Pods: pods[:min(len(pods), maxPods)]}
	data.More = len(pods) - len(data.Pods)
	v.Data, v.Note, v.Open, v.Said = data, note, []string{name}, model.Count(len(pods), "pod")
	return v, nil
}

func (s *Server) addresses(ctx context.Context, r *http.Request) (view, error) {
	name := r.PathValue("name")
	v := view{Template: "addresses", Title: "Addresses of Network " + name}
	if name == api.ClusterPools {
		v.Title = "Faces of pods"
	}
	i, note, err := s.config.Source.IPAM(ctx, name)
	if err != nil {
		return v, fmt.Errorf("ipam: %w", err)
	}
	v.Data, v.Note, v.Said = i, note, fmt.Sprintf("%d addresses are held", len(i.Status.Holders))
	if name != api.ClusterPools {
		v.Open = []string{name}
	}
	return v, nil
}

func (s *Server) pod(ctx context.Context, r *http.Request) (view, error) {
	key := model.PodKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	v := view{Template: "pod", Title: "Pod " + key.String()}
	p, note, err := s.config.Source.Pod(ctx, key)
	if err != nil {
		return v, fmt.Errorf("pod: %w", err)
	}
	v.Data, v.Note, v.Said = p, note, key.String()+": "+p.Status.Verdict
	if p.Status.Network != "" {
		v.Open = []string{p.Status.Network}
	}
	return v, nil
}

// pathOf is the address of a page, of words that somebody else may have written.
func pathOf(words ...string) string {
	escaped := make([]string, 0, len(words))
	for _, w := range words {
		for part := range strings.SplitSeq(w, "/") {
			escaped = append(escaped, url.PathEscape(part))
		}
	}
	return "/" + strings.Join(escaped, "/")
}

// mark is the word for how a layer of a pod is, as `atoll pod` prints it.
func mark(state api.LayerState) string {
	switch state {
	case api.LayerOK:
		return "ok"
	case api.LayerMissing:
		return "MISSING"
	case api.LayerUnknown:
		return "?"
	}
	return ""
}

// stateClass is how a state looks: good, late or bad.
func stateClass(state string) string {
	switch state {
	case "Active", "Ready":
		return "good"
	case "Waiting", "Pending", "Degraded", "":
		return "late"
	}
	return "bad"
}
