package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/trial"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// Try has somebody say what would change if policies were others. Where nobody answers, it says so itself, by what the user may list.
func (r *Remote) Try(ctx context.Context, spec api.PolicyTrialSpec) (api.PolicyTrialStatus, string, error) {
	tried, err := trial.Parse(spec)
	if err != nil {
		return api.PolicyTrialStatus{}, "", err
	}
	in := api.PolicyTrial{Spec: spec}
	in.APIVersion, in.Kind = api.GroupVersion().String(), "PolicyTrial"
	for _, key := range slices.SortedFunc(maps.Keys(tried), model.PolicyKey.Compare) {
		in.Namespace = key.Namespace
	}
	body, err := json.Marshal(in)
	if err != nil {
		return api.PolicyTrialStatus{}, "", fmt.Errorf("write the question: %w", err)
	}
	path := []string{api.ResourcePolicyTrials}
	if in.Namespace != "" {
		path = []string{"namespaces", url.PathEscape(in.Namespace), api.ResourcePolicyTrials}
	}
	var out api.PolicyTrial
	request := r.client.Discovery().RESTClient().Post().SetHeader("Content-Type", "application/json").Body(body)
	down, err := r.ask(ctx, request, &out, path)
	if err != nil || down == "" {
		return out.Status, "", err
	}
	return r.tryLocally(ctx, tried, down, in.Namespace, spec.Since)
}

// tryLocally compares by what the user may list: in all namespaces, or else in that of the policies alone.
func (r *Remote) tryLocally(
	ctx context.Context, tried trial.Tried, down, namespace string, since *meta.Duration,
) (api.PolicyTrialStatus, string, error) {
	local, note := r.locally(ctx, down, "")
	held, err := local.Held()
	if err != nil {
		return api.PolicyTrialStatus{}, note(), err
	}
	if held.Unread["pods"] && namespace != "" {
		local, note = r.locally(ctx, down, namespace)
		if held, err = local.Held(); err != nil {
			return api.PolicyTrialStatus{}, note(), err
		}
	}
	for _, kind := range []string{"pods", "networks", "namespaces"} {
		if held.Unread[kind] {
			return api.PolicyTrialStatus{}, note(), fmt.Errorf("%s; without %s nobody can tell what would change", down, kind)
		}
	}
	unread, err := r.readMore(ctx, held)
	if err != nil {
		return api.PolicyTrialStatus{}, note(), err
	}
	local.Held = func() (snapshot.Held, error) { return held, nil }
	local.Settings = func() (config.Settings, error) { return config.Read(ctx, r.config) }
	var seen *trial.TriedFlows
	if since != nil {
		seen = &trial.TriedFlows{Since: since.Duration, Problem: down}
	}
	out, err := trial.Answer(ctx, local, tried, nil, seen)
	if out.Sources = "what Kubernetes tells you"; len(unread) > 0 {
		out.Sources += ", without " + strings.Join(unread, " and ")
	}
	return out, note(), err
}

// readMore reads what only a trial needs: Tenants, and the policies of the cluster, as far as the user may list them.
func (r *Remote) readMore(ctx context.Context, held snapshot.Held) (unread []string, err error) {
	objects, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	read := &reading{held: held}
	listed(ctx, read, objects, "tenants", func(t *atoll.Tenant) { held.Objects.Tenants[t.Name] = intake.Tenant(t) })
	list, err := objects.Resource(trial.ResourceOf(model.ClusterNetworkPolicy)).List(ctx, meta.ListOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			read.miss(trial.ResourceOf(model.ClusterNetworkPolicy).Resource)
		}
		return read.unread, nil
	}
	var failed error
	for _, item := range list.Items {
		text, err := item.MarshalJSON()
		if err == nil {
			var p *model.Policy
			if p, err = intake.PolicyDocument(text); err == nil {
				held.Objects.Policies[p.Key] = p
			}
		}
		failed = errors.Join(failed, err)
	}
	return read.unread, failed
}

// everyDryRun has an API server do everything but keep it.
func everyDryRun() []string { return []string{meta.DryRunAll} }

// DryRun asks the API server, with the user's own rights, whether policies would be accepted and could be deleted. It returns the
// question what would change then: policies as the API server would keep them.
func (r *Remote) DryRun(
	ctx context.Context, policies []unstructured.Unstructured, gone []model.PolicyKey,
) (out api.PolicyTrialSpec, err error) {
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		return out, fmt.Errorf("make API client: %w", err)
	}
	for _, p := range policies {
		at := client.Resource(trial.ResourceOf(model.PolicyKind(p.GetKind()))).Namespace(p.GetNamespace())
		kept, err := at.Create(ctx, &p, meta.CreateOptions{DryRun: everyDryRun(), FieldValidation: meta.FieldValidationStrict})
		if apierrors.IsAlreadyExists(err) {
			var has *unstructured.Unstructured
			if has, err = at.Get(ctx, p.GetName(), meta.GetOptions{}); err != nil {
				return out, fmt.Errorf("read %s %s: %w", p.GetKind(), p.GetName(), err)
			}
			p.SetResourceVersion(has.GetResourceVersion())
			kept, err = at.Update(ctx, &p, meta.UpdateOptions{DryRun: everyDryRun(), FieldValidation: meta.FieldValidationStrict})
		}
		if err != nil {
			return out, fmt.Errorf("the API server does not accept %s %s: %w", p.GetKind(), p.GetName(), err)
		}
		kept.SetManagedFields(nil)
		text, err := kept.MarshalJSON()
		if err != nil {
			return out, fmt.Errorf("write %s %s: %w", p.GetKind(), p.GetName(), err)
		}
		out.Policies = append(out.Policies, runtime.RawExtension{Raw: text})
	}
	for _, key := range gone {
		err := client.Resource(trial.ResourceOf(key.Kind)).Namespace(key.Namespace).Delete(ctx, key.Name,
			meta.DeleteOptions{DryRun: everyDryRun()})
		if err != nil {
			return out, fmt.Errorf("the API server does not delete %s: %w", key, err)
		}
		out.Delete = append(out.Delete, key.String())
	}
	return out, nil
}
