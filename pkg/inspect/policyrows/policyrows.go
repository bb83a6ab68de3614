package policyrows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Isolating are the policies that isolate a pod in a direction: one of them must allow what it is to send or receive.
func Isolating(objects model.Changes, pod model.PodKey, direction model.Direction) []string {
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

// PodOf is the pod that an owner names.
func PodOf(text string) (model.PodKey, bool) {
	owner, known := nb.ParseOwner(text)
	return model.PodKey{Namespace: owner.Namespace, Name: owner.Name}, known && owner.Kind == nb.KindPod
}

// NetworkOf is the Network that a port is in.
func NetworkOf(port *nb.LogicalSwitchPort) string { return port.ExternalIDs[nb.KeyNetwork] }

// DescribeHint is how to look at a policy.
func DescribeHint(policy string) string {
	words := strings.Split(policy, "/")
	if len(words) == 3 {
		return fmt.Sprintf("kubectl describe %s -n %s %s", strings.ToLower(words[0]), words[1], words[2])
	}
	return fmt.Sprintf("kubectl describe %s", strings.Replace(strings.ToLower(policy), "/", " ", 1))
}

// VerdictWord is allow or drop.
func VerdictWord(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "drop"
}

// Words are an origin in words.
func Words(o nb.Origin) string {
	switch o.Policy {
	case nb.OwnNode:
		return "a pod's own node always reaches it"
	case nb.Itself:
		return "a pod always reaches itself"
	case nb.EachTier:
		return "a connection that was forbidden is judged in each tier again"
	case nb.Apart:
		return "pods of flat Networks reach their own Network, nodes and infrastructure"
	case nb.Guard:
		return "no pod may send what comes from routers or DHCP servers"
	case nb.Unserved:
		return "no Service or Gateway has that address and port"
	case nb.Faces:
		return "spec.infraIngress of the Network that the address belongs to"
	case nb.Peers:
		return "spec.compatibleWith and spec.uses of the two Networks"
	case nb.Isolation:
		return nb.Isolation
	}
	return fmt.Sprintf("%s, rule %s of %s", o.Policy, o.Rule, o.Direction)
}
