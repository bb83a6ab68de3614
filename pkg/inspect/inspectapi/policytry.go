package inspectapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/trial"
)

// maxTrial bounds the text of policies that are tried, in bytes.
const maxTrial = 2 << 20

// policyResources are where the API has policies.
func policyResources() map[model.PolicyKind]attributes {
	return map[model.PolicyKind]attributes{
		model.NetworkPolicy:        {verb: "create", group: "networking.k8s.io", resource: "networkpolicies"},
		model.ClusterNetworkPolicy: {verb: "create", group: "policy.networking.k8s.io", resource: "clusternetworkpolicies"},
	}
}

// try answers what would change if policies were others. Whoever may create such policies there may try them.
func (h *handler) try(r request) (any, error) {
	var posted api.PolicyTrial
	if err := readQuestion(r.text, &posted); err != nil {
		return nil, err
	}
	tried, err := trial.Parse(posted.Spec)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, key := range slices.SortedFunc(maps.Keys(tried), model.PolicyKey.Compare) {
		what := policyResources()[key.Kind]
		what.namespace = key.Namespace
		may, err := h.authz.may(r.Context(), r.who, what)
		if err != nil {
			return nil, apierrors.NewServiceUnavailable(err.Error())
		}
		if !may {
			return nil, forbidden(r.who, what)
		}
	}
	explain := func(namespace string) (bool, error) {
		may, err := h.authz.may(r.Context(), r.who, attributes{verb: "create", resource: api.ResourceExplanations, namespace: namespace})
		if err != nil {
			return false, apierrors.NewServiceUnavailable(err.Error())
		}
		return may, nil
	}
	every, err := explain("")
	if err != nil {
		return nil, err
	}
	var may question.MayAsk
	if !every {
		may = explain
	}
	out := api.PolicyTrial{TypeMeta: typeOf("PolicyTrial"), Spec: posted.Spec}
	out.Namespace = r.PathValue("namespace")
	var seen *trial.TriedFlows
	if since := posted.Spec.Since; since != nil && since.Duration > 0 {
		if seen, err = h.seen(r, tried, since.Duration); err != nil {
			return nil, err
		}
	}
	err = h.working(r, func() (err error) {
		out.Status, err = h.answers.Try(r.Context(), tried, may, seen)
		return err
	})
	return out, err
}

// seen are the flows of the last time that have to do with policies, as far as who asks may be told of them: those of their
// Networks, else those of their namespaces' pods.
func (h *handler) seen(r request, tried trial.Tried, since time.Duration) (*trial.TriedFlows, error) {
	out, q := &trial.TriedFlows{Since: since}, flows.Question{FlowQuestion: model.FlowQuestion{Since: since}}
	networks, err := h.answers.TriedNetworks(tried)
	if err != nil {
		return nil, err
	}
	if h.flower == nil {
		out.Problem = "nobody tells of flows here"
		return out, nil
	}
	whole, err := h.flower.allows(r.Context(), r.who, attributes{verb: "get", resource: api.ResourceFlows})
	if err != nil {
		return nil, err
	}
	var sight flows.Sight
	if !whole {
		sight = h.flower.sight(r.Context(), r.who)
		may, err := h.authz.which(r.Context(), r.who, api.ResourceFlows, networks)
		if err != nil {
			return nil, apierrors.NewServiceUnavailable(err.Error())
		}
		whole = networks != nil && len(may) == len(networks)
	}
	if q.Networks = networks; !whole {
		q.Networks, q.Namespaces = nil, []string{}
		for _, key := range slices.SortedFunc(maps.Keys(tried), model.PolicyKey.Compare) {
			may, err := h.flower.allows(r.Context(), r.who, attributes{verb: "list", resource: api.ResourcePodFlows, namespace: key.Namespace})
			switch {
			case err != nil:
				return nil, err
			case !may:
				out.Problem = fmt.Sprintf("you may not see the flows of pods in %s (list podflows.%s there)", cmp.Or(key.Namespace, "all namespaces"),
					api.GroupName)
				return out, nil
			case !slices.Contains(q.Namespaces, key.Namespace):
				q.Namespaces = append(q.Namespaces, key.Namespace)
			}
		}
	}
	leave, err := enter(h.flower.crowd, r.share)
	if err != nil {
		out.Problem = err.Error()
		return out, nil
	}
	defer leave()
	plan, err := h.flower.plans.Flows(r.Context(), q, sight)
	if err != nil {
		out.Problem = flowProblem(err).Error()
		if off, ok := errors.AsType[*flows.OffError](err); ok {
			out.Problem = off.Error()
		}
		return out, nil
	}
	out.Flows, out.Status = h.flower.gather(r.Context(), r, plan)
	return out, nil
}
