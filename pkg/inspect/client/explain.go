package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/status"
)

// UnexplainedError is that of a question that nobody answers. Seen is what Kubernetes tells of the pods at the ends.
type UnexplainedError struct {
	Note string
	Seen []api.Pod
}

// Error says why there is no answer.
func (e *UnexplainedError) Error() string {
	return e.Note + ". The way itself cannot be told; with the databases' addresses it can: --nb-address"
}

// Explain has a question answered: about everybody's pods, or where the user may not ask so, about those of the namespaces at the ends.
func (r *Remote) Explain(ctx context.Context, spec api.ExplanationSpec) (explain.Explanation, error) {
	q, err := question.ParseQuestion(spec)
	if err != nil {
		return explain.Explanation{}, err
	}
	places := []string{""}
	for _, end := range []question.End{q.From, q.To} {
		if namespace := end.Pod.Namespace + end.Service.Namespace; namespace != "" && !slices.Contains(places, namespace) {
			places = append(places, namespace)
		}
	}
	var refused error
	for _, namespace := range places {
		answer, down, err := r.create(ctx, spec, namespace)
		switch {
		case err == nil && down == "":
			return explain.FromAPI(spec, answer.Status), nil
		case down != "":
			return explain.Explanation{}, r.unexplained(ctx, q, down)
		case !apierrors.IsForbidden(err):
			return explain.Explanation{}, err
		}
		refused = err
	}
	return explain.Explanation{}, refused
}

// create posts a question; down says why nobody answers.
func (r *Remote) create(ctx context.Context, spec api.ExplanationSpec, namespace string) (out api.Explanation, down string, err error) {
	var in api.Explanation
	in.APIVersion, in.Kind, in.Namespace, in.Spec = api.GroupVersion().String(), "Explanation", namespace, spec
	body, err := json.Marshal(in)
	if err != nil {
		return out, "", fmt.Errorf("write the question: %w", err)
	}
	path := []string{api.ResourceExplanations}
	if namespace != "" {
		path = []string{"namespaces", url.PathEscape(namespace), api.ResourceExplanations}
	}
	request := r.client.Discovery().RESTClient().Post().SetHeader("Content-Type", "application/json").Body(body)
	down, err = r.ask(ctx, request, &out, path)
	return out, down, err
}

// unexplained is what Kubernetes tells of the pods at the ends.
func (r *Remote) unexplained(ctx context.Context, q question.Question, down string) error {
	out := &UnexplainedError{Note: down}
	for _, key := range []model.PodKey{q.From.Pod, q.To.Pod} {
		if key == (model.PodKey{}) {
			continue
		}
		local, note := r.locally(ctx, down, key.Namespace)
		p, there, err := status.Pod(ctx, local, key)
		out.Note = note()
		switch {
		case err != nil:
			return errors.Join(out, err)
		case !there:
			return errors.Join(out, &question.AbsentError{Object: "pod " + key.String()})
		}
		out.Seen = append(out.Seen, p)
	}
	return out
}
