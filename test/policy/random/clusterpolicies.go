package random

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterPolicy draws a ClusterNetworkPolicy of every field.
func clusterPolicy() *rapid.Generator[policyv1alpha2.ClusterNetworkPolicy] {
	return rapid.Custom(func(t *rapid.T) policyv1alpha2.ClusterNetworkPolicy {
		var p policyv1alpha2.ClusterNetworkPolicy
		p.Spec.Tier = rapid.SampledFrom([]policyv1alpha2.Tier{policyv1alpha2.AdminTier, policyv1alpha2.BaselineTier}).Draw(t, "tier")
		p.Spec.Priority = rapid.SampledFrom([]int32{0, 1, 2, 3, 998, 999, 1000}).Draw(t, "priority")
		if rapid.Bool().Draw(t, "subject of pods") {
			p.Spec.Subject.Pods = pods().Draw(t, "subject")
		} else {
			s := selector("namespace").Draw(t, "subject")
			p.Spec.Subject.Namespaces = &s
		}
		for _, r := range rapid.SliceOfN(clusterRule(false), 0, 4).Draw(t, "ingress") {
			in := policyv1alpha2.ClusterNetworkPolicyIngressRule{Action: r.Action, Protocols: r.Protocols}
			for _, to := range r.To {
				in.From = append(in.From, policyv1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: to.Namespaces, Pods: to.Pods})
			}
			p.Spec.Ingress = append(p.Spec.Ingress, in)
		}
		p.Spec.Egress = rapid.SliceOfN(clusterRule(true), 0, 4).Draw(t, "egress")
		return p
	})
}

func clusterPolicyKey(p policyv1alpha2.ClusterNetworkPolicy) string {
	return fmt.Sprint(p.Spec.Tier, p.Spec.Priority)
}

func pods() *rapid.Generator[*policyv1alpha2.NamespacedPod] {
	return rapid.Custom(func(t *rapid.T) *policyv1alpha2.NamespacedPod {
		return &policyv1alpha2.NamespacedPod{
			NamespaceSelector: selector("namespace").Draw(t, "namespaceSelector"), PodSelector: selector("pod").Draw(t, "podSelector"),
		}
	})
}

// clusterRule draws a rule whose peers may be addresses, or not.
func clusterRule(addresses bool) *rapid.Generator[policyv1alpha2.ClusterNetworkPolicyEgressRule] {
	return rapid.Custom(func(t *rapid.T) policyv1alpha2.ClusterNetworkPolicyEgressRule {
		r := policyv1alpha2.ClusterNetworkPolicyEgressRule{
			Action: rapid.SampledFrom([]policyv1alpha2.ClusterNetworkPolicyRuleAction{
				policyv1alpha2.ClusterNetworkPolicyRuleActionDeny,
				policyv1alpha2.ClusterNetworkPolicyRuleActionAccept,
				policyv1alpha2.ClusterNetworkPolicyRuleActionPass,
			}).Draw(t, "action"),
			To: rapid.SliceOfN(clusterPeer(addresses), 1, 2).Draw(t, "peers"),
		}
		// What is addressed by its address has no names of ports: the API has no meaning for a rule with both.
		named := true
		for _, p := range r.To {
			named = named && (p.Namespaces != nil || p.Pods != nil)
		}
		r.Protocols = rapid.SliceOfN(clusterProtocol(named), 0, 2).Draw(t, "protocols")
		return r
	})
}

func clusterPeer(addresses bool) *rapid.Generator[policyv1alpha2.ClusterNetworkPolicyEgressPeer] {
	return rapid.Custom(func(t *rapid.T) policyv1alpha2.ClusterNetworkPolicyEgressPeer {
		var p policyv1alpha2.ClusterNetworkPolicyEgressPeer
		kinds := []string{"namespaces", "pods", "namespaces", "pods", "namespaces", "pods", "unknown"}
		if addresses {
			kinds = append(kinds, "networks", "networks", "networks", "nodes", "nodes")
		}
		switch rapid.SampledFrom(kinds).Draw(t, "peer") {
		case "namespaces":
			s := selector("namespace").Draw(t, "namespaces")
			p.Namespaces = &s
		case "pods":
			p.Pods = pods().Draw(t, "pods")
		case "nodes":
			p.Nodes = &metav1.LabelSelector{}
			if rapid.Bool().Draw(t, "one node") {
				p.Nodes.MatchLabels = map[string]string{"kubernetes.io/hostname": "n1"}
			}
		case "networks":
			for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom(ranges()), 1, 2, rapid.ID[string]).Draw(t, "networks") {
				p.Networks = append(p.Networks, policyv1alpha2.CIDR(text))
			}
		}
		return p
	})
}

func clusterProtocol(named bool) *rapid.Generator[policyv1alpha2.ClusterNetworkPolicyProtocol] {
	return rapid.Custom(func(t *rapid.T) policyv1alpha2.ClusterNetworkPolicyProtocol {
		var p policyv1alpha2.ClusterNetworkPolicyProtocol
		kinds := []string{"TCP", "UDP", "SCTP"}
		if named {
			kinds = append(kinds, "name", "name")
		}
		kind := rapid.SampledFrom(kinds).Draw(t, "protocol")
		if kind == "name" {
			p.DestinationNamedPort = rapid.SampledFrom(portNames()).Draw(t, "name")
			return p
		}
		port := &policyv1alpha2.Port{}
		if first, last := portRange(t); first < last && rapid.Bool().Draw(t, "range") {
			port.Range = &policyv1alpha2.PortRange{Start: first, End: last}
		} else {
			port.Number = first
		}
		switch kind {
		case "TCP":
			p.TCP = &policyv1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
		case "UDP":
			p.UDP = &policyv1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
		case "SCTP":
			p.SCTP = &policyv1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
		}
		return p
	})
}
