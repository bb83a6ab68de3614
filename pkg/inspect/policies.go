package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// isolating are the policies that isolate a pod in a direction: one of them must allow what it is to send or receive.
func isolating(objects model.Changes, pod model.PodKey, direction model.Direction) []string {
	p := objects.Pods[pod]
	if p == nil {
		return nil
	}
	target := match.Target{Namespace: pod.Namespace, Labels: p.Labels}
	if ns := objects.Namespaces[pod.Namespace]; ns != nil {
		target.NamespaceLabels = ns.Labels
	}
	var out []string
	for key, policy := range objects.Policies {
		if policy.Isolates[direction] && policy.Subject.Matches(target) {
			out = append(out, key.String())
		}
	}
	slices.Sort(out)
	return out
}

// podOf is the pod that an owner names.
func podOf(text string) (model.PodKey, bool) {
	owner, known := nb.ParseOwner(text)
	return model.PodKey{Namespace: owner.Namespace, Name: owner.Name}, known && owner.Kind == nb.KindPod
}

// podOwner is the owner of the rows of a pod, which is named as namespace/name.
func podOwner(pod string) nb.Owner {
	namespace, name, _ := strings.Cut(pod, "/")
	return nb.PodOwner(namespace, name)
}

// describeHint is how to look at a policy.
func describeHint(policy string) string {
	words := strings.Split(policy, "/")
	if len(words) == 3 {
		return fmt.Sprintf("kubectl describe %s -n %s %s", strings.ToLower(words[0]), words[1], words[2])
	}
	return fmt.Sprintf("kubectl describe %s", strings.Replace(strings.ToLower(policy), "/", " ", 1))
}
