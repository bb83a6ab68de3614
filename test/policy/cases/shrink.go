package cases

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/test/policy/oracle"
)

// Shrink takes out of a case what it fails without. What is left fails too, and not if any one thing more is taken out.
// An API server would admit it if it would have admitted the case.
func Shrink(c Case, fails func(Case) bool) Case {
	for shrunk := true; shrunk; {
		shrunk = false
		for i := 0; ; {
			smaller := c.clone()
			k := &knife{index: i}
			k.caseOf(&smaller)
			if !k.cut {
				break
			}
			if fails(smaller) {
				c, shrunk = smaller, true
				continue
			}
			i++
		}
	}
	return c
}

func (c Case) clone() Case {
	out := c
	out.Namespaces, out.Pods = deep(c.Namespaces, (*corev1.Namespace).DeepCopy), slices.Clone(c.Pods)
	for i, p := range c.Pods {
		out.Pods[i] = oracle.Pod{Pod: *p.DeepCopy(), Network: p.Network, Addresses: slices.Clone(p.Addresses), Faces: slices.Clone(p.Faces)}
	}
	out.Policies, out.ClusterPolicies = slices.Clone(c.Policies), slices.Clone(c.ClusterPolicies)
	for i := range c.Policies {
		c.Policies[i].DeepCopyInto(&out.Policies[i])
	}
	for i := range c.ClusterPolicies {
		c.ClusterPolicies[i].DeepCopyInto(&out.ClusterPolicies[i])
	}
	out.Packets, out.Doors = slices.Clone(c.Packets), slices.Clone(c.Doors)
	out.Resolvers, out.Compatible = slices.Clone(c.Resolvers), slices.Clone(c.Compatible)
	for i, r := range c.Resolvers {
		out.Resolvers[i].Pods = slices.Clone(r.Pods)
	}
	for i, d := range c.Doors {
		out.Doors[i].Pods, out.Doors[i].Servers = slices.Clone(d.Pods), slices.Clone(d.Servers)
	}
	return out
}

func deep[T any](list []T, of func(*T) *T) []T {
	out := make([]T, 0, len(list))
	for i := range list {
		out = append(out, *of(&list[i]))
	}
	return out
}

// knife takes one thing out: the index-th that it comes by.
type knife struct {
	index int
	cut   bool
}

// here reports whether this is the thing.
func (k *knife) here() bool {
	k.index--
	k.cut = k.cut || k.index == -1
	return k.index == -1
}

// from takes an element out of a list that must keep so many.
func from[T any](k *knife, list *[]T, keep int) {
	for i := 0; i < len(*list) && len(*list) > keep && !k.cut; i++ {
		if k.here() {
			*list = slices.Delete(*list, i, i+1)
		}
	}
}

func (k *knife) labels(m map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		// The API server sets it.
		if key != corev1.LabelMetadataName && !k.cut && k.here() {
			delete(m, key)
		}
	}
}

func (k *knife) caseOf(c *Case) {
	from(k, &c.Packets, 1)
	from(k, &c.ClusterPolicies, 0)
	from(k, &c.Policies, 0)
	from(k, &c.Doors, 0)
	from(k, &c.Compatible, 0)
	for i := range c.Doors {
		from(k, &c.Doors[i].Pods, min(1, len(c.Doors[i].Pods)))
		from(k, &c.Doors[i].Servers, min(1, len(c.Doors[i].Servers)))
	}
	k.unusedPods(c)
	for i := range c.ClusterPolicies {
		k.clusterPolicy(&c.ClusterPolicies[i].Spec)
	}
	for i := range c.Policies {
		k.policy(c, i)
	}
	for i := range c.Pods {
		k.pod(&c.Pods[i])
	}
	for i := 0; i < len(c.Namespaces) && !k.cut; i++ {
		name := c.Namespaces[i].Name
		used := slices.ContainsFunc(c.Pods, func(p oracle.Pod) bool { return p.Namespace == name })
		if !used && k.here() {
			c.Namespaces = slices.Delete(c.Namespaces, i, i+1)
		}
	}
	for i := range c.Namespaces {
		k.labels(c.Namespaces[i].Labels)
	}
}

// unusedPods cuts pods that are no packet's end and behind no door.
func (k *knife) unusedPods(c *Case) {
	for i := 0; i < len(c.Pods) && !k.cut; i++ {
		name := c.Pods[i].Key()
		faces := c.Pods[i].Faces
		end := func(p Packet) bool {
			return p.From.Pod == name || p.To.Pod == name || slices.Contains(faces, p.From.Address) || slices.Contains(faces, p.To.Address)
		}
		if slices.ContainsFunc(c.Doors, func(d oracle.Door) bool { return slices.Contains(d.Pods, name) }) {
			continue
		}
		if !slices.ContainsFunc(c.Packets, end) && k.here() {
			c.Pods = slices.Delete(c.Pods, i, i+1)
		}
	}
}

// pod cuts from one pod.
func (k *knife) pod(p *oracle.Pod) {
	k.labels(p.Labels)
	from(k, &p.Spec.InitContainers, 0)
	for j := range p.Spec.Containers {
		from(k, &p.Spec.Containers[j].Ports, 0)
	}
	if p.DeletionTimestamp != nil && !k.cut && k.here() {
		p.DeletionTimestamp = nil
	}
}

func (k *knife) policy(c *Case, i int) {
	spec := &c.Policies[i].Spec
	k.selector(&spec.PodSelector)
	from(k, &spec.Ingress, 0)
	from(k, &spec.Egress, 0)
	for j := range spec.Ingress {
		from(k, &spec.Ingress[j].Ports, 0)
		from(k, &spec.Ingress[j].From, 0)
	}
	for j := range spec.Egress {
		from(k, &spec.Egress[j].Ports, 0)
		from(k, &spec.Egress[j].To, 0)
	}
	for j := range spec.Ingress {
		for n := range spec.Ingress[j].From {
			k.peer(spec.Ingress[j].From[n].PodSelector, spec.Ingress[j].From[n].NamespaceSelector)
			if b := spec.Ingress[j].From[n].IPBlock; b != nil {
				from(k, &b.Except, 0)
			}
		}
	}
	for j := range spec.Egress {
		for n := range spec.Egress[j].To {
			k.peer(spec.Egress[j].To[n].PodSelector, spec.Egress[j].To[n].NamespaceSelector)
			if b := spec.Egress[j].To[n].IPBlock; b != nil {
				from(k, &b.Except, 0)
			}
		}
	}
}

func (k *knife) peer(selectors ...*metav1.LabelSelector) {
	for _, s := range selectors {
		if s != nil {
			k.selector(s)
		}
	}
}

func (k *knife) selector(s *metav1.LabelSelector) {
	from(k, &s.MatchExpressions, 0)
	for i := range s.MatchExpressions {
		from(k, &s.MatchExpressions[i].Values, 1)
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if !k.cut && k.here() {
			delete(s.MatchLabels, key)
		}
	}
}

func (k *knife) clusterPolicy(spec *policyv1alpha2.ClusterNetworkPolicySpec) {
	k.peer(spec.Subject.Namespaces)
	k.pods(spec.Subject.Pods)
	from(k, &spec.Ingress, 0)
	from(k, &spec.Egress, 0)
	for i := range spec.Ingress {
		from(k, &spec.Ingress[i].Protocols, 0)
		from(k, &spec.Ingress[i].From, 1)
		for _, p := range spec.Ingress[i].From {
			k.peer(p.Namespaces)
			k.pods(p.Pods)
		}
	}
	for i := range spec.Egress {
		from(k, &spec.Egress[i].Protocols, 0)
		from(k, &spec.Egress[i].To, 1)
		for j := range spec.Egress[i].To {
			p := &spec.Egress[i].To[j]
			k.peer(p.Namespaces, p.Nodes)
			k.pods(p.Pods)
			from(k, &p.Networks, 1)
		}
	}
}

func (k *knife) pods(p *policyv1alpha2.NamespacedPod) {
	if p != nil {
		k.selector(&p.NamespaceSelector)
		k.selector(&p.PodSelector)
	}
}
