package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// lacking is the one label without which a policy that isolates a pod does not let in, or out to, the other one: what is most
// often forgotten. It is empty when no rule is so near.
func (e *explainer) lacking(isolating []string, direction model.Direction) string {
	if e.other == nil || e.objects.Pods[e.other.pod] == nil {
		return ""
	}
	pod := e.objects.Pods[e.other.pod]
	target := match.Target{Namespace: pod.Key.Namespace, Labels: pod.Labels}
	if ns := e.objects.Namespaces[pod.Key.Namespace]; ns != nil {
		target.NamespaceLabels = ns.Labels
	}
	for _, key := range slices.SortedFunc(maps.Keys(e.objects.Policies),
		func(a, b model.PolicyKey) int { return strings.Compare(a.String(), b.String()) }) {
		policy := e.objects.Policies[key]
		if !slices.Contains(isolating, key.String()) {
			continue
		}
		for i, rule := range policy.Rules[direction] {
			if !rule.AnyPort && !slices.ContainsFunc(rule.Ports, e.dialledBy) {
				continue
			}
			for _, peer := range rule.Peers {
				if peer.Pods == nil || rule.Verdict != model.Allow {
					continue
				}
				if r, one := onlyMissing(*peer.Pods, target); one {
					return fmt.Sprintf("rule %d of %s would allow it if %s had the label %s=%s", i, key, e.other, r.Key, strings.Join(r.Values, " or "))
				}
			}
		}
	}
	return ""
}

// dialledBy reports whether a rule's port is the one that is judged.
func (e *explainer) dialledBy(p model.PolicyPort) bool {
	return p.Protocol == e.judging.protocol && p.First <= e.judging.port && e.judging.port <= p.Last
}

// onlyMissing is the one requirement on a pod's labels that a target does not meet, if there is just one.
func onlyMissing(pods match.Pods, target match.Target) (out match.Requirement, one bool) {
	missing := 0
	for _, r := range pods.Labels.Requirements {
		alone := pods
		alone.Labels = match.Selector{Requirements: []match.Requirement{r}}
		if !alone.Matches(target) {
			out = r
			missing++
		}
	}
	rest := pods
	rest.Labels = match.Selector{}
	return out, missing == 1 && out.Op == match.In && rest.Matches(target)
}
