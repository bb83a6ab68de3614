package inspectapi

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/model"
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
	text, err := io.ReadAll(io.LimitReader(r.Body, maxTrial+1))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the question: %v", err))
	}
	if len(text) > maxTrial {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("policies that are tried have at most %d bytes", maxTrial))
	}
	var question api.PolicyTrial
	if err := json.Unmarshal(text, &question); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the question: %v", err))
	}
	tried, err := inspect.ParseTried(question.Spec)
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
	var may inspect.MayAsk
	if !every {
		may = explain
	}
	out := api.PolicyTrial{TypeMeta: typeOf("PolicyTrial"), Spec: question.Spec}
	out.Namespace = r.PathValue("namespace")
	out.Status, err = h.answers.Try(tried, may)
	return out, err
}
