package agree

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/frame"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// clientPort is the port that packets come from where nobody says another one: no policy can name it.
const clientPort = 40000

// sending is a packet as it is put on the wire, and the switch ports where that is and where it has to come out.
type sending struct {
	frame.Packet
	ingress, egress string
	// source and nextHop are MAC addresses.
	source, nextHop string
}

// sendingOf is a connection's first packet as its source would send it: to the neighbour's MAC address, or the gateway's.
func (p product) sendingOf(packet cases.Packet, client uint16) (sending, error) {
	dialled := packet.Packet
	if packet.Dial.IsValid() {
		dialled.To, dialled.Port = oracle.End{Address: packet.Dial.Addr()}, packet.Dial.Port()
	}
	in := entrance(dialled)
	s, err := p.send(dialled, in, frame.Packet{
		From:     netip.AddrPortFrom(dialled.From.Address, client),
		To:       netip.AddrPortFrom(dialled.To.Address, dialled.Port),
		Protocol: protocolOf(dialled.Protocol),
	})
	s.egress = exit(packet.Packet)
	return s, err
}

// answerOf is an answer to it, which whoever is at that switch port sends.
func (p product) answerOf(packet oracle.Packet, at string, client uint16) (sending, error) {
	packet = reversed(packet)
	return p.send(packet, at, frame.Packet{
		From:     netip.AddrPortFrom(packet.From.Address, packet.Port),
		To:       netip.AddrPortFrom(packet.To.Address, client),
		Protocol: protocolOf(packet.Protocol),
		Answer:   true,
	})
}

// reversed is a packet on its way back.
func reversed(packet oracle.Packet) oracle.Packet {
	packet.From, packet.To = packet.To, packet.From
	return packet
}

func protocolOf(p corev1.Protocol) frame.Protocol {
	if p == oracle.ICMP {
		return frame.ICMP
	}
	return frame.Protocol(p)
}

func (p product) send(packet oracle.Packet, in string, out frame.Packet) (sending, error) {
	source, there := p.ports[in]
	if !there {
		return sending{}, fmt.Errorf("send the packet: there is no port %s", in)
	}
	hop, err := p.nextHop(packet, in)
	if err != nil {
		return sending{}, err
	}
	return sending{out, in, exit(packet), source, hop}, nil
}

// microflow is the packet in words of ovn-trace(8).
func (s sending) microflow() string {
	family := "ip4"
	if s.From.Addr().Is6() {
		family = "ip6"
	}
	return fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == 64 && %s",
		s.ingress, s.source, s.nextHop, family, s.From.Addr(), family, s.To.Addr(), s.transport())
}

// transport is the rest of a microflow: the ports, or what kind of echo it is by ICMP and ICMPv6.
func (s sending) transport() string {
	names := map[frame.Protocol]string{frame.TCP: "tcp", frame.UDP: "udp", frame.SCTP: "sctp"}
	if name, has := names[s.Protocol]; has {
		return fmt.Sprintf("%s && %s.src == %d && %s.dst == %d", name, name, s.From.Port(), name, s.To.Port())
	}
	family, echo := "icmp4", map[bool]int{false: 8, true: 0}
	if s.From.Addr().Is6() {
		family, echo = "icmp6", map[bool]int{false: 128, true: 129}
	}
	return fmt.Sprintf("%s.type == %d && %s.code == 0", family, echo[s.Answer], family)
}

// exit is the switch port by which a packet leaves its Network, or comes to its pod.
func exit(packet oracle.Packet) string {
	switch {
	case packet.To.Pod != "":
		return packet.To.Pod
	case packet.Network == cases.Default && packet.To.Node != "":
		return model.NodePortName(packet.Network, packet.To.Node)
	}
	return model.PortholePortName(packet.Network)
}

// entrance is the switch port by which a packet enters its Network.
func entrance(packet oracle.Packet) string {
	switch {
	case packet.From.Pod != "":
		return packet.From.Pod
	case packet.Network == cases.Default && packet.From.Node != "":
		// A node has its own port in the default Network, by which also others come in.
		return model.NodePortName(packet.Network, packet.From.Node)
	case packet.Network == cases.Default:
		return model.NodePortName(packet.Network, cases.Node1)
	}
	return model.PortholePortName(packet.Network)
}

// nextHop is the MAC address that the source sends a packet to.
func (p product) nextHop(packet oracle.Packet, in string) (string, error) {
	gateway := packet.Network + ":edge"
	if in != model.PortholePortName(packet.Network) {
		at := cases.Subnets(cases.Default)[0]
		if packet.From.Pod != "" {
			at, _ = cases.SubnetOf(packet.Network, packet.From.Address)
		}
		if at.Ranges[0].Contains(packet.To.Address) || at.Ranges[1].Contains(packet.To.Address) {
			if mac, there := p.ports[exit(packet)]; there {
				return mac, nil
			}
		}
		gateway = packet.Network + "/" + at.Name + ":gateway"
	}
	mac, there := p.gateways[gateway]
	if !there {
		return "", fmt.Errorf("send the packet: there is no port %s", gateway)
	}
	return mac, nil
}
