package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policyrows"
	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// maxTried bounds how many policies are tried together.
const maxTried = 100

// Tried are the policies that would change. A nil policy would be deleted.
type Tried map[model.PolicyKey]*model.Policy

// Parse reads a question about policies as it is posted.
func Parse(spec api.PolicyTrialSpec) (Tried, error) {
	out := Tried{}
	for _, raw := range spec.Policies {
		p, err := intake.PolicyDocument(raw.Raw)
		if err != nil {
			return nil, err
		}
		if _, twice := out[p.Key]; twice {
			return nil, fmt.Errorf("%s is there twice", p.Key)
		}
		out[p.Key] = p
	}
	for _, text := range spec.Delete {
		key, err := ParsePolicyKey(text)
		if err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		out[key] = nil
	}
	switch {
	case len(out) == 0:
		return nil, errors.New("there is no policy to try")
	case len(out) > maxTried:
		return nil, fmt.Errorf("%d policies are too many: at most %d are tried together", len(out), maxTried)
	}
	return out, nil
}

// ParsePolicyKey reads KIND/NAMESPACE/NAME of a NetworkPolicy, or KIND/NAME of a ClusterNetworkPolicy.
func ParsePolicyKey(text string) (model.PolicyKey, error) {
	words := strings.Split(text, "/")
	switch {
	case slices.Contains(words, ""):
	case len(words) == 3 && words[0] == string(model.NetworkPolicy):
		return model.PolicyKey{Kind: model.NetworkPolicy, Namespace: words[1], Name: words[2]}, nil
	case len(words) == 2 && words[0] == string(model.ClusterNetworkPolicy):
		return model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: words[1]}, nil
	}
	return model.PolicyKey{}, fmt.Errorf("%q is neither NetworkPolicy/NAMESPACE/NAME nor ClusterNetworkPolicy/NAME", text)
}

// Answer says what the tried policies would change, and which of the seen flows, unless seen is nil. An asker who may not ask about
// everything sees only pods of namespaces that this asker may ask about: the namespaces of the tried policies, and others in the
// same Networks.
func Answer(ctx context.Context, s snapshot.Sources, tried Tried, may question.MayAsk, seen *TriedFlows) (api.PolicyTrialStatus, error) {
	if s.Settings == nil {
		return api.PolicyTrialStatus{}, question.ErrNotRead
	}
	held, err := s.Held()
	if err != nil {
		return api.PolicyTrialStatus{}, err
	}
	settings, err := s.Settings()
	if err != nil {
		return api.PolicyTrialStatus{}, err
	}
	q := policytrial.Question{
		Objects: held.Objects, Defaults: defaultsof.Of(settings), Policies: tried, Flows: seen.judged(),
		Gone: func() error { return context.Cause(ctx) },
	}
	sources := "the objects of the API server"
	var limits *visibility.Limits
	if may != nil {
		if limits, err = lookTried(held, tried, may); err != nil {
			return api.PolicyTrialStatus{}, err
		}
		q.Sees = func(key model.PodKey) bool { return limits.Namespaces[key.Namespace] }
		sources += "; pods of namespaces that you may not ask about are not compared"
	}
	for key, p := range tried {
		if p == nil && held.Objects.Policies[key] == nil {
			return api.PolicyTrialStatus{}, &question.Error{Err: fmt.Errorf("there is no %s that could be deleted", key)}
		}
	}
	outcome, err := policytrial.Compare(q)
	if err != nil {
		return api.PolicyTrialStatus{}, fmt.Errorf("try policies: %w", err)
	}
	out, verdict := trialStatus(outcome, tried, sources, limits)
	out.Flows = seen.status(outcome, verdict)
	return out, nil
}

// lookTried returns the limits for an asker who tries policies. An asker with limits may not try cluster-wide policies.
func lookTried(held snapshot.Held, tried Tried, may question.MayAsk) (*visibility.Limits, error) {
	var namespaces []string
	for key := range tried {
		if key.Namespace == "" {
			return nil, &question.Error{
				Err: fmt.Errorf("%s is about pods of all namespaces, and you may not ask about these (create explanations.inspect.atoll.dev)", key),
			}
		}
		namespaces = append(namespaces, key.Namespace)
	}
	return visibility.OfNamespaces(held, namespaces, may)
}

// trialStatus converts an outcome to its API type. It leaves out what names other tenants' objects.
func trialStatus(
	o policytrial.Outcome, tried Tried, sources string, limits *visibility.Limits,
) (api.PolicyTrialStatus, func(policytrial.Verdict) api.TrialVerdict) {
	out := api.PolicyTrialStatus{
		Denied: o.Denied, Allowed: o.Allowed, Changes: len(o.Changes) > 0, Cut: o.Cut, Sources: sources, Paths: []api.TrialPath{},
	}
	for _, key := range slices.SortedFunc(maps.Keys(tried), model.PolicyKey.Compare) {
		if tried[key] == nil {
			continue
		}
		for _, p := range tried[key].Problems {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: %s", key, p.Message))
		}
	}
	told := func(text string) string {
		if limits != nil && limits.Tells(text) {
			return visibility.HiddenStep
		}
		return text
	}
	verdict := func(v policytrial.Verdict) api.TrialVerdict {
		one := api.TrialVerdict{Allowed: v.Allowed}
		for _, d := range v.Deciders {
			if text := told(decider(d)); !slices.Contains(one.Deciders, text) {
				one.Deciders = append(one.Deciders, text)
			}
		}
		return one
	}
	ends := func(groups []*policytrial.Group) (all []api.TrialEnd) {
		for _, g := range groups {
			all = append(all, trialEnd(g, limits))
		}
		return all
	}
	for _, c := range o.Changes {
		out.Paths = append(out.Paths, api.TrialPath{
			From: ends(c.From), To: ends(c.To), Ports: policytrial.PortsText(c.Ports), Family: c.Family, Face: c.Face,
			Before: verdict(c.Before), After: verdict(c.After),
		})
	}
	if limits != nil && o.Cut != "" {
		// The number of other tenants' groups is secret.
		out.Cut = "it would be too much: not all was compared"
	}
	out.Verdict = trialVerdict(o)
	return out, verdict
}

func trialVerdict(o policytrial.Outcome) string {
	text := fmt.Sprintf("%s of %s would be denied, %d of %s newly allowed",
		model.Count(o.Denied, "path"), model.Count(o.DeniedPairs, "pair"), o.Allowed, model.Count(o.AllowedPairs, "pair"))
	switch {
	case o.Selected == 0:
		text = "Nothing would change: the policies select no pod"
	case o.Denied+o.Allowed == 0:
		text = "Nothing would change"
	case o.Denied == 0:
		text = fmt.Sprintf("%s of %s would be allowed, 0 denied", model.Count(o.Allowed, "path"), model.Count(o.AllowedPairs, "pair"))
	case o.Allowed == 0:
		text = fmt.Sprintf("%s of %s would be denied, 0 newly allowed", model.Count(o.Denied, "path"), model.Count(o.DeniedPairs, "pair"))
	}
	if o.Waiting > 0 {
		text += fmt.Sprintf("; %s without an address not compared", model.Count(o.Waiting, "pod"))
	}
	return text
}

// decider describes what decides, in words.
func decider(d policytrial.Decider) string {
	switch {
	case len(d.Isolating) > 0:
		texts := make([]string, len(d.Isolating))
		for i, key := range d.Isolating {
			texts[i] = key.String()
		}
		return fmt.Sprintf("isolation of %s by %s", d.Direction, strings.Join(texts, ", "))
	case d.Origin == (nb.Origin{}):
		return fmt.Sprintf("%s: no rule", d.Direction)
	}
	return policyrows.Words(d.Origin)
}

// maxMembers bounds the names of one end.
const maxMembers = 100

// noise are the label keys that do not say what a pod is for.
func noise(key string) bool {
	return key == "pod-template-hash" || key == "controller-revision-hash" || key == "pod-template-generation" ||
		strings.HasPrefix(key, "statefulset.kubernetes.io/") ||
		strings.HasPrefix(key, "apps.kubernetes.io/") || strings.HasPrefix(key, "batch.kubernetes.io/")
}

// trialEnd converts a group to its API type, with only those pods that the asker may see.
func trialEnd(g *policytrial.Group, limits *visibility.Limits) api.TrialEnd {
	out := api.TrialEnd{Kind: string(g.Kind), Network: g.Network}
	members := func(names []string) string {
		out.Count, out.Members = len(names), names[:min(len(names), maxMembers)]
		if len(names) == 1 {
			return names[0]
		}
		return fmt.Sprintf("%s +%d", names[0], len(names)-1)
	}
	switch g.Kind {
	case policytrial.Pods:
		var names []string
		for _, key := range g.Pods {
			if limits == nil || limits.Namespaces[key.Namespace] {
				names = append(names, key.String())
			}
		}
		out.Name = members(names)
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
			if !noise(key) && len(names) > 1 && len(labels) < 2 {
				labels = append(labels, key+"="+g.Labels[key])
			}
		}
		if len(labels) > 0 {
			out.Name += " (" + strings.Join(labels, ",") + ")"
		}
	case policytrial.Nodes:
		names := make([]string, len(g.Nodes))
		for i, name := range g.Nodes {
			names[i] = "node/" + name
		}
		out.Name = members(names)
	case policytrial.Outside:
		out.Name, out.CIDR = question.OutsideWord, g.CIDR.String()
		if g.CIDR.Bits() > 0 {
			out.Name += " " + out.CIDR
		}
		out.Except = prefixTexts(g.Except)
	case policytrial.Names, policytrial.API:
		out.Name = map[policytrial.Kind]string{policytrial.Names: "the cluster's DNS", policytrial.API: "the Kubernetes API"}[g.Kind]
		for _, a := range g.Dialled {
			out.Dialled = append(out.Dialled, a.String())
		}
	}
	return out
}

func prefixTexts(all []netip.Prefix) (out []string) {
	for _, p := range all {
		out = append(out, p.String())
	}
	return out
}
