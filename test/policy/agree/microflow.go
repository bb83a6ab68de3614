package agree

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// clientPort is the port that packets come from: no policy can name it.
const clientPort = 40000

// sending is a packet as it is put on the wire, and the port where it has to come out.
type sending struct {
	microflow, out string
}

// sendingOf is a connection's first packet as its source would send it: to the neighbour's MAC address, or the gateway's.
func (p product) sendingOf(packet cases.Packet) (sending, error) {
	dialled, out := packet.Packet, exit(packet.Packet)
	if packet.Dial.IsValid() {
		dialled.To, dialled.Port = oracle.End{Address: packet.Dial.Addr()}, packet.Dial.Port()
	}
	s, err := p.send(dialled, transport(dialled, clientPort, dialled.Port, 8, 128))
	s.out = out
	return s, err
}

// answerOf is an answer to it.
func (p product) answerOf(packet oracle.Packet) (sending, error) {
	packet.From, packet.To = packet.To, packet.From
	return p.send(packet, transport(packet, packet.Port, clientPort, 0, 129))
}

func (p product) send(packet oracle.Packet, transport string) (sending, error) {
	in, source, err := p.entrance(packet)
	if err != nil {
		return sending{}, err
	}
	destination, err := p.nextHop(packet)
	if err != nil {
		return sending{}, err
	}
	family := "ip4"
	if packet.From.Address.Is6() {
		family = "ip6"
	}
	flow := fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == 64 && %s",
		in, source, destination, family, packet.From.Address, family, packet.To.Address, transport)
	return sending{flow, exit(packet)}, nil
}

// transport is the rest of a microflow: the ports, or what kind of echo it is by ICMP and ICMPv6.
func transport(packet oracle.Packet, from, to uint16, echo4, echo6 int) string {
	names := map[corev1.Protocol]string{corev1.ProtocolTCP: "tcp", corev1.ProtocolUDP: "udp", corev1.ProtocolSCTP: "sctp"}
	if name, has := names[packet.Protocol]; has {
		return fmt.Sprintf("%s && %s.src == %d && %s.dst == %d", name, name, from, name, to)
	}
	if packet.From.Address.Is6() {
		return fmt.Sprintf("icmp6.type == %d && icmp6.code == 0", echo6)
	}
	return fmt.Sprintf("icmp4.type == %d && icmp4.code == 0", echo4)
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

// entrance is the switch port by which a packet enters its Network, and the MAC address of who sends it.
func (p product) entrance(packet oracle.Packet) (port, mac string, err error) {
	switch {
	case packet.From.Pod != "":
		port = packet.From.Pod
	case packet.Network == cases.Default && packet.From.Node != "":
		// A node has its own port in the default Network, by which also others come in.
		port = model.NodePortName(packet.Network, packet.From.Node)
	case packet.Network == cases.Default:
		port = model.NodePortName(packet.Network, cases.Node1)
	default:
		port = model.PortholePortName(packet.Network)
	}
	mac, there := p.ports[port]
	if !there {
		return "", "", fmt.Errorf("send the packet: there is no port %s", port)
	}
	return port, mac, nil
}

// nextHop is the MAC address that the source sends a packet to.
func (p product) nextHop(packet oracle.Packet) (string, error) {
	gateway := packet.Network + ":edge"
	if at, inside := p.home(packet); inside {
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

// home is the subnet that the source is plugged into; false for who comes through the porthole.
func (p product) home(packet oracle.Packet) (cases.Subnet, bool) {
	if packet.From.Pod == "" {
		return cases.Subnets(cases.Default)[0], packet.Network == cases.Default
	}
	return cases.SubnetOf(packet.Network, packet.From.Address)
}
