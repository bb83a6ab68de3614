package oracle

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterRule is an ingress or an egress rule of a ClusterNetworkPolicy. Ingress peers have two of the fields of egress
// peers.
type clusterRule struct {
	action    policyv1alpha2.ClusterNetworkPolicyRuleAction
	peers     []policyv1alpha2.ClusterNetworkPolicyEgressPeer
	protocols []policyv1alpha2.ClusterNetworkPolicyProtocol
}

func clusterRules(p policyv1alpha2.ClusterNetworkPolicy, d Direction) []clusterRule {
	var out []clusterRule
	if d == Egress {
		for _, r := range p.Spec.Egress {
			out = append(out, clusterRule{r.Action, r.To, r.Protocols})
		}
		return out
	}
	for _, r := range p.Spec.Ingress {
		rule := clusterRule{action: r.Action, protocols: r.Protocols}
		for _, from := range r.From {
			rule.peers = append(rule.peers, policyv1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: from.Namespaces, Pods: from.Pods})
		}
		out = append(out, rule)
	}
	return out
}

// isSubject reports whether a policy applies to a pod: by its namespace, or by its namespace and its own labels.
func (c Cluster) isSubject(s policyv1alpha2.ClusterNetworkPolicySubject, pod *Pod) bool {
	switch {
	case s.Namespaces != nil:
		return c.selectsNamespace(s.Namespaces, pod.Namespace)
	case s.Pods != nil:
		return c.selectsNamespacedPod(*s.Pods, pod)
	}
	return false
}

// match is what a rule says to a packet.
type match int

const (
	// other: the rule is about other packets.
	other match = iota
	matching
	// unreadable: the rule holds something that this version of the API does not know.
	unreadable
)

// matchClusterRule: some peer and, if there are any, some protocol.
func (c Cluster) matchClusterRule(r clusterRule, t traffic) match {
	peers, protocols := other, other
	for _, p := range r.peers {
		peers = max(peers, c.matchClusterPeer(p, t))
	}
	for _, p := range r.protocols {
		protocols = max(protocols, matchProtocol(p, t))
	}
	switch {
	case peers == unreadable, protocols == unreadable:
		return unreadable
	case peers == matching && (len(r.protocols) == 0 || protocols == matching):
		return matching
	}
	return other
}

func (c Cluster) matchClusterPeer(p policyv1alpha2.ClusterNetworkPolicyEgressPeer, t traffic) match {
	switch {
	case p.Namespaces != nil:
		return matchIf(t.peerPod != nil && c.selectsNamespace(p.Namespaces, t.peerPod.Namespace))
	case p.Pods != nil:
		return matchIf(t.peerPod != nil && c.selectsNamespacedPod(*p.Pods, t.peerPod))
	case p.Nodes != nil:
		return matchIf(c.isNode(p.Nodes, t.peer))
	case len(p.Networks) > 0:
		found := other
		for _, text := range p.Networks {
			network, err := netip.ParsePrefix(string(text))
			if err != nil {
				return unreadable
			}
			found = max(found, matchIf(slices.ContainsFunc(c.known(t), network.Contains)))
		}
		return found
	}
	// Nothing that we know. Names of domains are among it: they say nothing about addresses.
	return unreadable
}

func matchProtocol(p policyv1alpha2.ClusterNetworkPolicyProtocol, t traffic) match {
	var named corev1.Protocol
	var port *policyv1alpha2.Port
	switch {
	case p.TCP != nil:
		named, port = corev1.ProtocolTCP, p.TCP.DestinationPort
	case p.UDP != nil:
		named, port = corev1.ProtocolUDP, p.UDP.DestinationPort
	case p.SCTP != nil:
		named, port = corev1.ProtocolSCTP, p.SCTP.DestinationPort
	case p.DestinationNamedPort != "":
		return matchIf(hasPort(t.target, p.DestinationNamedPort, t.packet.Protocol, t.packet.Port))
	default:
		return unreadable
	}
	number := int32(t.packet.Port)
	switch {
	case port == nil:
		return matchIf(named == t.packet.Protocol)
	case port.Range != nil:
		return matchIf(named == t.packet.Protocol && port.Range.Start <= number && number <= port.Range.End)
	case port.Number != 0:
		return matchIf(named == t.packet.Protocol && number == port.Number)
	}
	return unreadable
}

func matchIf(yes bool) match {
	if yes {
		return matching
	}
	return other
}

// isNode reports whether an end is a selected node, or has an address of one.
func (c Cluster) isNode(selector *metav1.LabelSelector, e End) bool {
	for _, n := range c.Nodes {
		if n.Name == e.Node && selects(selector, n.Labels) {
			return true
		}
		for _, own := range n.Status.Addresses {
			if address, err := netip.ParseAddr(own.Address); err == nil && address == e.Address && selects(selector, n.Labels) {
				return true
			}
		}
	}
	return false
}
