package oracle

import (
	"cmp"
	"slices"

	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Judge says whether a packet arrives. Both ends have to allow it: the source its egress, the destination its ingress.
func (c Cluster) Judge(p Packet) Verdict {
	source, destination := c.podAt(p.Network, p.From), c.podAt(p.Network, p.To)
	if p.From.Pod != "" && source == nil || p.To.Pod != "" && destination == nil {
		return verdictOf(Reason{Why: Astray}, Reason{Why: Astray})
	}
	if source != nil && destination != nil && source.Key() == destination.Key() {
		// A pod is no peer of itself: what it sends to itself does not leave it.
		own := Reason{Allowed: true, Why: Itself}
		return verdictOf(own, own)
	}
	out, in := Reason{Allowed: true, Why: NotOurs}, Reason{Allowed: true, Why: NotOurs}
	switch {
	case source == nil:
	case c.apart(p.Network, p.To, Egress):
		out = Reason{Why: NotCompatible}
	default:
		target := cmp.Or(destination, c.foreign(p.Network, p.To, Egress))
		out = c.judge(traffic{Egress, source, p.To, target, target, p})
	}
	switch {
	case destination == nil:
	case c.apart(p.Network, p.From, Ingress):
		in = Reason{Why: NotCompatible}
	case p.From.Node != "" && p.From.Node == destination.Spec.NodeName:
		// "Traffic is allowed to a pod ... if the traffic source is the pod's local node." No peer of a cluster policy's
		// ingress rule can be a node.
		in = Reason{Allowed: true, Why: OwnNode}
	default:
		in = c.judge(traffic{Ingress, destination, p.From, cmp.Or(source, c.foreign(p.Network, p.From, Ingress)), destination, p})
	}
	return verdictOf(out, in)
}

func verdictOf(out, in Reason) Verdict {
	return Verdict{Allowed: out.Allowed && in.Allowed, Egress: out, Ingress: in}
}

// traffic is a packet as one of its ends sees it.
type traffic struct {
	direction Direction
	// subject is the pod that policies are asked about.
	subject *Pod
	// peer is the other end, and peerPod the pod there: of the same Network, or of one that has to do with it; nil if there is none.
	peer    End
	peerPod *Pod
	// target is the pod that the packet goes to, whose ports have names; nil if it goes to none.
	target *Pod
	packet Packet
}

// judge asks the tiers in their order: Admin, NetworkPolicy, Baseline. What none decides is allowed.
func (c Cluster) judge(t traffic) Reason {
	for _, tier := range []func(traffic) (Reason, bool){
		func(t traffic) (Reason, bool) { return c.clusterTier(policyv1alpha2.AdminTier, t) },
		c.namespacedTier,
		func(t traffic) (Reason, bool) { return c.clusterTier(policyv1alpha2.BaselineTier, t) },
	} {
		if reason, decided := tier(t); decided {
			return reason
		}
	}
	return Reason{Allowed: true, Why: Nothing}
}

// clusterTier asks the ClusterNetworkPolicies of one tier: the lower the priority's number, the sooner; within a policy
// in the order of its rules. The first rule that matches decides; Pass leaves it to the next tier. The API leaves open
// which of two policies of one priority is asked first: here it is by name.
func (c Cluster) clusterTier(tier policyv1alpha2.Tier, t traffic) (Reason, bool) {
	policies := slices.Clone(c.ClusterPolicies)
	slices.SortFunc(policies, func(a, b policyv1alpha2.ClusterNetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range policies {
		if p.Spec.Tier != tier || !c.isSubject(p.Spec.Subject, t.subject) {
			continue
		}
		for i, rule := range clusterRules(p, t.direction) {
			reason := Reason{Why: ByRule, Policy: "ClusterNetworkPolicy " + p.Name, Rule: i}
			switch c.decides(rule, t) {
			case unreadable:
				// Fail closed: "Accept" then matches no traffic, the others are "Deny all".
				if rule.action != policyv1alpha2.ClusterNetworkPolicyRuleActionAccept {
					return reason, true
				}
			case matching:
				switch rule.action {
				case policyv1alpha2.ClusterNetworkPolicyRuleActionAccept:
					reason.Allowed = true
					return reason, true
				case policyv1alpha2.ClusterNetworkPolicyRuleActionPass:
					return Reason{}, false
				}
				return reason, true
			}
		}
	}
	return Reason{}, false
}

// namespacedTier asks the NetworkPolicies. They allow only, and add up; a pod that one of them selects for a direction
// gets in that direction what they allow, and nothing else.
func (c Cluster) namespacedTier(t traffic) (Reason, bool) {
	isolation := Reason{Why: Isolated}
	isolated := false
	for _, p := range c.Policies {
		if p.Namespace != t.subject.Namespace || !concerns(p, t.direction) || !selects(&p.Spec.PodSelector, t.subject.Labels) {
			continue
		}
		name := "NetworkPolicy " + p.Namespace + "/" + p.Name
		if !isolated {
			isolated, isolation.Policy = true, name
		}
		for i, rule := range namespacedRules(p, t.direction) {
			if c.allows(p.Namespace, rule, t) {
				return Reason{Allowed: true, Why: ByRule, Policy: name, Rule: i}, true
			}
		}
	}
	return isolation, isolated
}
