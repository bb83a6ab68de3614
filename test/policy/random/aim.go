package random

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// target is a rule that packets are aimed at: most packets that are drawn blindly meet none.
type target struct {
	// subjects are the pods that its policy selects.
	subjects []oracle.Pod
	egress   bool
	ports    []aimedPort
	blocks   []netip.Prefix
}

// aimedPort is some ports of a protocol, or those with a name.
type aimedPort struct {
	protocol    corev1.Protocol
	first, last int32
	name        string
}

// targets are the rules of policies that select a pod.
func targets(c oracle.Cluster) []target {
	var out []target
	add := func(t target) {
		if len(t.subjects) > 0 {
			out = append(out, t)
		}
	}
	for _, p := range c.Policies {
		subjects := podsOf(c, &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.Namespace}}, &p.Spec.PodSelector)
		for _, r := range p.Spec.Ingress {
			add(target{subjects, false, policyPorts(r.Ports), peerBlocks(r.From)})
		}
		for _, r := range p.Spec.Egress {
			add(target{subjects, true, policyPorts(r.Ports), peerBlocks(r.To)})
		}
	}
	for _, p := range c.ClusterPolicies {
		subjects := podsOf(c, p.Spec.Subject.Namespaces, &metav1.LabelSelector{})
		if of := p.Spec.Subject.Pods; of != nil {
			subjects = podsOf(c, &of.NamespaceSelector, &of.PodSelector)
		}
		for _, r := range p.Spec.Ingress {
			add(target{subjects, false, clusterPorts(r.Protocols), nil})
		}
		for _, r := range p.Spec.Egress {
			var blocks []netip.Prefix
			for _, peer := range r.To {
				for _, text := range peer.Networks {
					blocks = append(blocks, netip.MustParsePrefix(string(text)))
				}
				if peer.Nodes != nil {
					blocks = append(blocks, netip.MustParsePrefix("192.0.2.11/32"), netip.MustParsePrefix("2001:db8::11/128"))
				}
			}
			add(target{subjects, true, clusterPorts(r.Protocols), blocks})
		}
	}
	return out
}

// podsOf are pods with a place, by the labels of their namespaces and their own.
func podsOf(c oracle.Cluster, namespaces, pods *metav1.LabelSelector) []oracle.Pod {
	var out []oracle.Pod
	for _, p := range c.Pods {
		at := slices.IndexFunc(c.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == p.Namespace })
		if p.Network != "" && meets(namespaces, c.Namespaces[at].Labels) && meets(pods, p.Labels) {
			out = append(out, p)
		}
	}
	return out
}

func meets(s *metav1.LabelSelector, l map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(k8slabels.Set(l))
}

func policyPorts(in []netv1.NetworkPolicyPort) []aimedPort {
	var out []aimedPort
	for _, p := range in {
		to := aimedPort{protocol: corev1.ProtocolTCP, first: 80, last: 80}
		if p.Protocol != nil {
			to.protocol = *p.Protocol
		}
		switch {
		case p.Port != nil && p.Port.Type == intstr.String:
			to.name = p.Port.StrVal
		case p.Port != nil:
			to.first, to.last = p.Port.IntVal, p.Port.IntVal
		}
		if p.EndPort != nil {
			to.last = *p.EndPort
		}
		out = append(out, to)
	}
	return out
}

func clusterPorts(in []policyv1alpha2.ClusterNetworkPolicyProtocol) []aimedPort {
	var out []aimedPort
	for _, p := range in {
		to := aimedPort{protocol: corev1.ProtocolTCP, name: p.DestinationNamedPort}
		var port *policyv1alpha2.Port
		switch {
		case p.TCP != nil:
			port = p.TCP.DestinationPort
		case p.UDP != nil:
			to.protocol, port = corev1.ProtocolUDP, p.UDP.DestinationPort
		case p.SCTP != nil:
			to.protocol, port = corev1.ProtocolSCTP, p.SCTP.DestinationPort
		}
		switch {
		case port != nil && port.Range != nil:
			to.first, to.last = port.Range.Start, port.Range.End
		case port != nil:
			to.first, to.last = port.Number, port.Number
		}
		out = append(out, to)
	}
	return out
}

func peerBlocks(peers []netv1.NetworkPolicyPeer) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range peers {
		if p.IPBlock != nil {
			out = append(out, netip.MustParsePrefix(p.IPBlock.CIDR))
		}
	}
	return out
}

// aimed draws a packet that meets a rule's subject, and perhaps its ports and peers.
func aimed(t *rapid.T, c oracle.Cluster, at target) oracle.Packet {
	subject := rapid.SampledFrom(at.subjects).Draw(t, "subject")
	p := oracle.Packet{Network: subject.Network}
	family := rapid.IntRange(0, 1).Draw(t, "family")
	if at.egress && p.Network != cases.Default && len(c.Doors) > 0 && rapid.IntRange(0, 5).Draw(t, "a door") == 5 {
		return throughDoor(t, c, subject)
	}
	own := endAt(subject, family)
	var to aimedPort
	if len(at.ports) > 0 {
		to = rapid.SampledFrom(at.ports).Draw(t, "ports")
	}
	var other oracle.End
	others := facesOutside(c, subject.Network, family)
	for _, o := range membersOf(c, subject.Network) {
		if o.Name != subject.Name {
			others = append(others, endAt(o, family))
		}
	}
	if at.egress && to.name != "" {
		others = withPort(c, others, to.name)
	}
	// Only pods have names of ports.
	if len(others) > 0 && (to.name != "" || rapid.IntRange(0, 3).Draw(t, "a pod") > 0) {
		other = rapid.SampledFrom(others).Draw(t, "peer")
	} else {
		other = oracle.End{Address: outsider(t, at.blocks, subject.Network, family)}
	}
	if meant := meantNodes(c, at.blocks, subject.Spec.NodeName, family); !at.egress && len(meant) > 0 &&
		rapid.IntRange(0, 3).Draw(t, "a node") > 0 {
		// Pods see a node by another address than the one that a block has.
		name := rapid.SampledFrom(meant).Draw(t, "node")
		other = oracle.End{Node: name, Address: cases.NodeAddresses(name)[family].Addr()}
	}
	if p.From, p.To = other, own; at.egress {
		p.From, p.To = own, other
	}
	if len(at.ports) == 0 {
		aimPort(t, c, &p)
		return p
	}
	to.aim(t, c, &p)
	return p
}

// aim draws a packet's port: one that the rule means, or one right beside.
func (to aimedPort) aim(t *rapid.T, c oracle.Cluster, p *oracle.Packet) {
	p.Protocol = to.protocol
	if to.name != "" {
		p.Port = 80
		for _, port := range portsOf(c, p.To) {
			if port.Name == to.name {
				p.Protocol, p.Port = port.Protocol, uint16(port.ContainerPort)
			}
		}
		return
	}
	number := rapid.SampledFrom([]int32{to.first, to.last, to.last + 1, to.first - 1}).Draw(t, "port")
	p.Port = uint16(min(max(number, 1), 65535))
}

// withPort are the ends at which a port has a name; all if it has it nowhere.
func withPort(c oracle.Cluster, ends []oracle.End, name string) []oracle.End {
	var out []oracle.End
	for _, e := range ends {
		if slices.ContainsFunc(portsOf(c, e), func(p corev1.ContainerPort) bool { return p.Name == name }) {
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return ends
	}
	return out
}

// meantNodes are the nodes, without a pod's own, of which the Node object shows an address of the family that lies in a block's range.
func meantNodes(c oracle.Cluster, blocks []netip.Prefix, own string, family int) []string {
	var out []string
	for _, n := range c.Nodes {
		if n.Name == own {
			continue
		}
		for _, shown := range n.Status.Addresses {
			a := netip.MustParseAddr(shown.Address)
			if a.Is4() == (family == 0) && slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) }) {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// outsider is somebody outside of a Network, in one of the blocks if there is one.
func outsider(t *rapid.T, blocks []netip.Prefix, network string, family int) netip.Addr {
	all := strangers(network)[family]
	var within []netip.Addr
	for _, a := range all {
		if slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) }) {
			within = append(within, a)
		}
	}
	if len(within) > 0 {
		all = within
	}
	return rapid.SampledFrom(all).Draw(t, "address")
}
