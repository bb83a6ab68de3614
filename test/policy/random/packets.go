package random

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// packet draws a packet: from a pod, a node or from outside to a pod, or from a pod to outside. More than half are aimed at
// a rule.
func packet(c oracle.Cluster) *rapid.Generator[oracle.Packet] {
	rules := targets(c)
	// Few rules are about nodes.
	ofNodes := slices.DeleteFunc(slices.Clone(rules), func(at target) bool {
		return at.egress || len(meantNodes(c, at.blocks, "", 0))+len(meantNodes(c, at.blocks, "", 1)) == 0
	})
	return rapid.Custom(func(t *rapid.T) oracle.Packet {
		if len(ofNodes) > 0 && rapid.IntRange(0, 4).Draw(t, "at a rule of nodes") == 4 {
			return aimed(t, c, rapid.SampledFrom(ofNodes).Draw(t, "rule"))
		}
		if len(rules) > 0 && rapid.IntRange(0, 4).Draw(t, "aimed") > 1 {
			return aimed(t, c, rapid.SampledFrom(rules).Draw(t, "rule"))
		}
		var p oracle.Packet
		p.Network = rapid.SampledFrom(networksOf(c)).Draw(t, "network")
		family := rapid.IntRange(0, 1).Draw(t, "family")
		members := membersOf(c, p.Network)
		one := rapid.SampledFrom(members)
		kinds := []string{"out", "in", "node"}
		if len(members) > 1 {
			kinds = append([]string{"pods", "pods", "pods", "pods", "pods"}, kinds...)
		}
		if p.Network != cases.Default && len(c.Doors) > 0 {
			kinds = append(kinds, "door")
		}
		faces := facesOutside(c, p.Network, family)
		if len(faces) > 0 {
			kinds = append(kinds, "to a face", "from a face", "from a face")
		}
		switch rapid.SampledFrom(kinds).Draw(t, "packet") {
		case "pods":
			at := rapid.IntRange(0, len(members)-1).Draw(t, "from")
			// What a pod sends to itself does not leave it.
			to := (at + rapid.IntRange(1, len(members)-1).Draw(t, "to")) % len(members)
			p.From, p.To = endAt(members[at], family), endAt(members[to], family)
		case "out":
			p.From, p.To = endAt(one.Draw(t, "from"), family), stranger(t, p.Network, family)
		case "door":
			return throughDoor(t, c, one.Draw(t, "from"))
		case "in":
			p.From, p.To = stranger(t, p.Network, family), endAt(one.Draw(t, "to"), family)
		case "to a face":
			p.From, p.To = endAt(one.Draw(t, "from"), family), rapid.SampledFrom(faces).Draw(t, "face")
		case "from a face":
			p.From, p.To = rapid.SampledFrom(faces).Draw(t, "face"), endAt(one.Draw(t, "to"), family)
		case "node":
			to := one.Draw(t, "to")
			p.From, p.To = node(t, p.Network, to.Spec.NodeName, family), endAt(to, family)
		}
		aimPort(t, c, &p)
		return p
	})
}

// throughDoor draws a packet of a pod to a door.
func throughDoor(t *rapid.T, c oracle.Cluster, from oracle.Pod) oracle.Packet {
	d := rapid.SampledFrom(c.Doors).Draw(t, "door")
	family := 0
	if d.Address.Is6() {
		family = 1
	}
	return oracle.Packet{
		Network: from.Network, From: endAt(from, family), To: oracle.End{Address: d.Address}, Protocol: d.Protocol, Port: d.Port,
	}
}

// membersOf are the pods in a Network.
func membersOf(c oracle.Cluster, network string) []oracle.Pod {
	var out []oracle.Pod
	for _, pod := range c.Pods {
		if pod.Network == network {
			out = append(out, pod)
		}
	}
	return out
}

// facesOutside are the pods of other Networks as those of one of type vpc know them: by their faces. Who they are, and whether the Networks
// have to do with each other, the packet does not say.
func facesOutside(c oracle.Cluster, network string, family int) []oracle.End {
	var out []oracle.End
	for _, pod := range c.Pods {
		if pod.Network != network && network != cases.Default && len(pod.Faces) > 0 {
			out = append(out, oracle.End{Address: pod.Faces[family]})
		}
	}
	return out
}

// portsOf are the ports of the containers of the pod at an end.
func portsOf(c oracle.Cluster, at oracle.End) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, pod := range c.Pods {
		if pod.Key() == at.Pod || slices.Contains(pod.Faces, at.Address) {
			for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				out = append(out, container.Ports...)
			}
		}
	}
	return out
}

// aimPort draws a protocol and a port: often one to which the destination gives a name.
func aimPort(t *rapid.T, c oracle.Cluster, p *oracle.Packet) {
	named := portsOf(c, p.To)
	if len(named) > 0 && rapid.IntRange(0, 2).Draw(t, "by name") == 2 {
		port := rapid.SampledFrom(named).Draw(t, "named port")
		p.Protocol, p.Port = port.Protocol, uint16(port.ContainerPort)
		return
	}
	p.Protocol = rapid.SampledFrom([]corev1.Protocol{
		corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP, oracle.ICMP,
	}).Draw(t, "protocol")
	if p.Protocol != oracle.ICMP {
		p.Port = uint16(rapid.SampledFrom(append(portNumbers(), 83)).Draw(t, "port"))
	}
}

// networksOf are the Networks in which pods are.
func networksOf(c oracle.Cluster) []string {
	var out []string
	for _, name := range cases.NetworkNames() {
		if slices.ContainsFunc(c.Pods, func(p oracle.Pod) bool { return p.Network == name }) {
			out = append(out, name)
		}
	}
	return out
}

// endAt is a pod under its address of a family.
func endAt(p oracle.Pod, family int) oracle.End {
	return oracle.End{Pod: p.Key(), Address: p.Addresses[family]}
}

// strangers are somebody outside of a Network: the world, nodes, and addresses that pods of other Networks have.
func strangers(network string) [2][]netip.Addr {
	texts := [2][]string{
		{"203.0.113.9", "203.0.113.10", "198.51.100.1", "192.0.2.11", "192.0.2.12"},
		{"2001:db8:9::9", "2001:db8:8::1", "2001:db8::11", "2001:db8::12"},
	}
	others := [2][]string{{"10.128.0.10", "10.128.0.11", "10.128.0.12"}, {"fd00:128::a", "fd00:128::b", "fd00:128::c"}}
	// Faces are other addresses there; and in a Network, faces of the pods of others.
	others[0], others[1] = append(others[0], "100.64.1.9"), append(others[1], "fd64:a701::19")
	if network == cases.Default {
		others = [2][]string{{"10.0.0.10", "10.0.1.11", "10.0.0.12"}, {"fd00:10::a", "fd00:11::b", "fd00:10::c"}}
	}
	var out [2][]netip.Addr
	for family := range out {
		for _, text := range slices.Concat(texts[family], others[family]) {
			out[family] = append(out[family], netip.MustParseAddr(text))
		}
	}
	return out
}

// stranger is one of them.
func stranger(t *rapid.T, network string, family int) oracle.End {
	return oracle.End{Address: rapid.SampledFrom(strangers(network)[family]).Draw(t, "address")}
}

// node is a node that sends: the pod's own, or another one. In the default Network it has an address of its own there. In the
// others its own pods see it under an address that is the same everywhere; to another's it comes by way of the default
// Network.
func node(t *rapid.T, network, own string, family int) oracle.End {
	name := rapid.SampledFrom([]string{cases.Node1, cases.Node2}).Draw(t, "node")
	if network != cases.Default && name == own {
		return oracle.End{Node: name, Address: cases.OwnNodeAddresses()[family]}
	}
	return oracle.End{Node: name, Address: cases.NodeAddresses(name)[family].Addr()}
}
