package inspectapi

import (
	"context"
	"net/netip"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/status"
	"github.com/atoll-net/atoll/pkg/inspect/trial"
)

// Reads is the table of the resources that are read by GET, in the order of discovery.
func Reads(s snapshot.Sources) []Read {
	return []Read{
		readOf(resources.Clusters(), s),
		readOf(resources.Networks(), s),
		readOf(resources.IPAMs(), s),
		readOf(resources.IPAMChecks(), s),
		readOf(resources.Topologies(), s),
		readOf(resources.Pods(), s),
	}
}

// Read is a row of the table: a resource, and how it is answered once RBAC has allowed the user to read it.
type Read struct {
	discovery meta.APIResource
	list, get func(h *handler, r request) (any, error)
}

// objects is a list in the form of the API.
type objects[O any] struct {
	meta.TypeMeta `json:",inline"`
	meta.ListMeta `json:"metadata"`
	Items         []O `json:"items"`
}

func readOf[O any](of resources.Resource[O], s snapshot.Sources) Read {
	does := func(h *handler, r request, work func() error) error {
		if of.Works {
			return h.working(r, work)
		}
		return work()
	}
	return Read{
		discovery: meta.APIResource{
			Name: of.Name, SingularName: strings.ToLower(of.Kind), Kind: of.Kind, Namespaced: of.Namespaced, Verbs: meta.Verbs{"get", "list"},
		},
		list: func(h *handler, r request) (any, error) {
			var all []O
			err := does(h, r, func() (err error) {
				all, err = of.List(r.Context(), s, r.PathValue("namespace"))
				return err
			})
			if err == nil && of.Whose != nil {
				all, err = ownObjects(h, r, of.Name, all, of.Whose)
			}
			return objects[O]{TypeMeta: typeOf(of.Kind + "List"), Items: all}, err
		},
		get: func(h *handler, r request) (any, error) {
			var (
				one   O
				there bool
				name  = r.PathValue("name")
			)
			err := does(h, r, func() (err error) {
				one, there, err = of.Get(r.Context(), s, r.PathValue("namespace"), name)
				return err
			})
			if err == nil && !there {
				err = apierrors.NewNotFound(groupResource(of.Name), name)
			}
			return one, err
		},
	}
}

// Answers are what other questions are answered with. What takes long ends with its context.
type Answers struct {
	Reads []Read
	// Networks returns all Networks.
	Networks func(ctx context.Context) ([]api.Network, error)
	// TenantsOf returns the Tenants that a user administers. Tenants says to whose share of a limit a user counts.
	TenantsOf func(user string, groups []string) (map[string]bool, error)
	Tenants   func() (snapshot.Tenants, error)
	// Explain answers a question, as far as the user may ask about its namespaces.
	Explain func(ctx context.Context, spec api.ExplanationSpec, may question.MayAsk) (api.ExplanationStatus, error)
	// Try says what changed policies would change. The caller has checked that the user may change them; may is as for Explain.
	Try func(ctx context.Context, tried trial.Tried, may question.MayAsk, seen *trial.TriedFlows) (api.PolicyTrialStatus, error)
	// TriedNetworks returns the Networks whose flows a trial concerns; nil: all.
	TriedNetworks func(tried trial.Tried) ([]string, error)
}

// answersFrom answers from a snapshot's sources.
func answersFrom(s snapshot.Sources) Answers {
	return Answers{
		Reads:     Reads(s),
		Networks:  func(ctx context.Context) ([]api.Network, error) { return status.Networks(ctx, s) },
		TenantsOf: s.TenantsOf,
		Tenants:   s.Tenants,
		Explain: func(ctx context.Context, spec api.ExplanationSpec, may question.MayAsk) (api.ExplanationStatus, error) {
			return explain.Answer(ctx, s, spec, may)
		},
		Try: func(ctx context.Context, tried trial.Tried, may question.MayAsk, seen *trial.TriedFlows) (api.PolicyTrialStatus, error) {
			return trial.Answer(ctx, s, tried, may, seen)
		},
		TriedNetworks: func(tried trial.Tried) ([]string, error) { return trial.Networks(s, tried) },
	}
}

// sources find pods, nodes and addresses for what goes to nodes' agents: they implement Nodes, FlowPlans and AllNodes.
type sources struct{ snapshot.Sources }

// Dialled implements Nodes.
func (s sources) Dialled(ctx context.Context, from model.PodKey, spec api.ExplanationSpec, may question.MayAsk) ([]netip.Addr, error) {
	return explain.Dialled(ctx, s.Sources, from, spec, may)
}

// Sending implements Sends.
func (s sources) Sending(ctx context.Context, spec api.ExplanationSpec, may question.MayAsk) (*explain.Sending, error) {
	return explain.ToSend(ctx, s.Sources, spec, may)
}

// Flows implements FlowPlans.
func (s sources) Flows(ctx context.Context, q flows.Question, sight flows.Sight) (*flows.Plan, error) {
	return flows.NewPlan(ctx, s.Sources, q, sight)
}
