package oracle

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// namespacedRule is an ingress or an egress rule of a NetworkPolicy, which differ in the names of their fields only.
type namespacedRule struct {
	peers []netv1.NetworkPolicyPeer
	ports []netv1.NetworkPolicyPort
}

func namespacedRules(p netv1.NetworkPolicy, d Direction) []namespacedRule {
	var out []namespacedRule
	if d == Ingress {
		for _, r := range p.Spec.Ingress {
			out = append(out, namespacedRule{r.From, r.Ports})
		}
		return out
	}
	for _, r := range p.Spec.Egress {
		out = append(out, namespacedRule{r.To, r.Ports})
	}
	return out
}

// concerns reports whether a policy isolates the pods that it selects in a direction. Without policyTypes every policy
// concerns ingress, and one with egress rules concerns egress too.
func concerns(p netv1.NetworkPolicy, d Direction) bool {
	if len(p.Spec.PolicyTypes) == 0 {
		return d == Ingress || len(p.Spec.Egress) > 0
	}
	wanted := netv1.PolicyTypeIngress
	if d == Egress {
		wanted = netv1.PolicyTypeEgress
	}
	return slices.Contains(p.Spec.PolicyTypes, wanted)
}

// matchNamespacedRule: a packet must match both the ports and the peers; an empty list of either matches all.
func (c Cluster) matchNamespacedRule(namespace string, r namespacedRule, t traffic) bool {
	peers := len(r.peers) == 0 || slices.ContainsFunc(r.peers, func(p netv1.NetworkPolicyPeer) bool {
		return c.matchPeer(namespace, p, t)
	})
	ports := len(r.ports) == 0 || slices.ContainsFunc(r.ports, func(p netv1.NetworkPolicyPort) bool {
		return matchPort(p, t)
	})
	return peers && ports
}

// known are the addresses that the other end is known by: the one in the packet, and the one that Kubernetes' API shows, from which
// somebody who writes a policy has it: of a pod of the Network its face, and of a node the addresses of its Node object. Of a pod of
// another Network they are the same.
func (c Cluster) known(t traffic) []netip.Addr {
	out := []netip.Addr{t.peer.Address}
	shown := c.shown(t.peer)
	if t.peerPod != nil {
		shown = t.peerPod.Faces
	}
	if slices.Contains(shown, t.peer.Address) {
		return out
	}
	for _, a := range shown {
		if a.Is4() == t.peer.Address.Is4() {
			out = append(out, a)
		}
	}
	return out
}

// shown are the addresses of the Node object of an end that is a node.
func (c Cluster) shown(e End) []netip.Addr {
	var out []netip.Addr
	for _, n := range c.Nodes {
		if n.Name != e.Node {
			continue
		}
		for _, own := range n.Status.Addresses {
			if a, err := netip.ParseAddr(own.Address); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// matchPeer: an ipBlock matches addresses, whoever has them; selectors match pods of the subject's Network, and of those that
// have to do with it.
func (c Cluster) matchPeer(namespace string, p netv1.NetworkPolicyPeer, t traffic) bool {
	if p.IPBlock != nil {
		return matchBlock(*p.IPBlock, c.known(t))
	}
	switch {
	case t.peerPod == nil, p.NamespaceSelector == nil && p.PodSelector == nil:
		return false
	case p.PodSelector != nil && !selects(p.PodSelector, t.peerPod.Labels):
		return false
	case p.NamespaceSelector == nil:
		return t.peerPod.Namespace == namespace
	}
	return c.selectsNamespace(p.NamespaceSelector, t.peerPod.Namespace)
}

// matchBlock: one of the addresses within the range, and none of them in an exception. One that cannot be read contains
// nothing.
func matchBlock(b netv1.IPBlock, addresses []netip.Addr) bool {
	whole, err := netip.ParsePrefix(b.CIDR)
	if err != nil || !slices.ContainsFunc(addresses, whole.Contains) {
		return false
	}
	for _, text := range b.Except {
		if except, err := netip.ParsePrefix(text); err != nil || slices.ContainsFunc(addresses, except.Contains) {
			return false
		}
	}
	return true
}

// matchPort: the protocol is TCP if none is named; without a port all ports of the protocol match.
func matchPort(p netv1.NetworkPolicyPort, t traffic) bool {
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	switch {
	case protocol != t.packet.Protocol:
		return false
	case p.Port == nil:
		return true
	case p.Port.Type == intstr.String:
		return hasPort(t.target, p.Port.StrVal, protocol, t.packet.Port)
	case p.EndPort == nil:
		return int32(t.packet.Port) == p.Port.IntVal
	}
	return p.Port.IntVal <= int32(t.packet.Port) && int32(t.packet.Port) <= *p.EndPort
}

// hasPort reports whether a port of a pod has the name. Containers have ports, and of the init containers those that go
// on running beside them. What is no pod has no names.
func hasPort(pod *Pod, name string, protocol corev1.Protocol, number uint16) bool {
	if pod == nil {
		return false
	}
	running := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running = append(running, c)
		}
	}
	for _, c := range running {
		for _, port := range c.Ports {
			of := port.Protocol
			if of == "" {
				of = corev1.ProtocolTCP
			}
			if port.Name == name && of == protocol && port.ContainerPort == int32(number) {
				return true
			}
		}
	}
	return false
}
