package explained

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Port is a switch port that a pod sends from.
type Port struct {
	// Name is the switch port's, MAC the pod's.
	Name, MAC string
	// Gateway is the MAC address of the router in its subnet.
	Gateway string
	// Subnet has the pod's own addresses with the lengths of their subnets.
	Subnet []netip.Prefix
	// Neighbours are the MAC addresses of those in its switch, by their own addresses.
	Neighbours map[netip.Addr]string
}

// clientPort is the port that traced packets come from: no policy names it.
const clientPort = 40000

// Microflow is a packet to an address as the pod would send it, in words of ovn-trace(8). Its error says why there is none.
func (p Port) Microflow(to netip.Addr, protocol wire.Protocol, port uint16) (string, error) {
	i := slices.IndexFunc(p.Subnet, func(own netip.Prefix) bool { return own.Addr().Is4() == to.Is4() })
	if i < 0 {
		return "", fmt.Errorf("it has no address of the family")
	}
	own, hop := p.Subnet[i], p.Gateway
	if own.Addr() == to {
		return "", errOwn
	}
	if own.Masked().Contains(to) {
		if hop = p.Neighbours[to]; hop == "" {
			return "", errNobody
		}
	}
	family, echo := "ip4", "icmp4.type == 8 && icmp4.code == 0"
	if to.Is6() {
		family, echo = "ip6", "icmp6.type == 128 && icmp6.code == 0"
	}
	last := echo
	if protocol != wire.ICMP {
		last = fmt.Sprintf("%[1]s && %[1]s.src == %[2]d && %[1]s.dst == %[3]d", protocol, clientPort, port)
	}
	return fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && %s.src == %s && %s.dst == %s && ip.ttl == 64 && %s",
		p.Name, p.MAC, hop, family, own.Addr(), family, to, last), nil
}

// What is not traced, and why.
var (
	errOwn    = untraced("it is the pod's own address: the packet does not leave the pod")
	errNobody = untraced("nobody has that address in the subnet: no packet is sent, but a question for who has it")
	errItself = untraced("a Service leads the pod back to itself, which ovn-trace does not follow")
)

type untraced string

func (u untraced) Error() string { return string(u) }

// Traced is what ovn-trace says of a packet: the switch ports where it comes out.
type Traced []string

// output is what ovn-trace prints for each (ovn-trace(8), --minimal).
var output = regexp.MustCompile(`output\("([^"]+)"\)`)

// ReadTrace reads what ovn-trace printed. What a router sends instead of the packet, since it does not know its neighbour, is not
// the packet: it asks all in the subnet for who has an address.
func ReadTrace(said string) (out Traced) {
	inside, depth := "", 0
	for line := range strings.Lines(said) {
		text := strings.TrimSpace(line)
		if depth == 0 && (text == "arp {" || text == "nd_ns {") {
			inside = text
		}
		if inside != "" {
			if depth += strings.Count(text, "{") - strings.Count(text, "}"); depth == 0 {
				inside = ""
			}
			continue
		}
		for _, match := range output.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(out, match[1]) {
				out = append(out, match[1])
			}
		}
	}
	return out
}

// What an explanation says of OVN's part of a way.
type part struct {
	// port is where it comes out; empty: nowhere.
	port string
	// open: it comes out at no pod's port, but it may leave OVN and be refused there.
	open bool
}

// partOf reads OVN's part out of a way's steps. Network is the sender's.
func partOf(network string, w api.ExplanationWay) part {
	for _, s := range w.There {
		switch {
		case s.OK && s.Layer == "router" && strings.HasPrefix(s.What, "router "+network+" leads ") &&
			strings.HasSuffix(s.What, " to the porthole on the pod's own node"):
			return part{port: network + ":porthole"}
		case s.OK && s.Layer == "router" && strings.HasSuffix(s.What, " to the pod's own node"):
			return part{port: network + ":porthole"}
		case s.OK && s.Layer == "porthole" && strings.HasPrefix(s.What, "the face "):
			// Only out of a flat Network without leaving by the edge first.
			return part{port: fmt.Sprintf("%s:node:%s", network, s.Node)}
		}
	}
	if pod, is := strings.CutPrefix(w.To, "pod "); is && w.Reached {
		return part{port: pod}
	}
	last := api.ExplanationStep{}
	if len(w.There) > 0 {
		last = w.There[len(w.There)-1]
	}
	// A Service that the Network does not know, and what has nobody behind it: explain says so at once, wherever the packet is refused.
	return part{
		open: strings.HasPrefix(last.What, "Service ") || last.Layer == "load balancer" || last.Layer == "switch" || last.Layer == "porthole",
	}
}

// JudgeTrace is what an explanation says of OVN's part of what is dialled at an address otherwise than ovn-trace, in words; empty
// when they agree. An error says why that cannot be compared.
func JudgeTrace(stage Stage, q Question, said Said, dialled netip.Addr, traced Traced) (string, error) {
	from := stage.Pods[q.From]
	var parts []part
	for _, w := range said.Status.Ways {
		if a, dials := dialledBy(w); !dials || a != dialled {
			continue
		}
		if w.Reached && w.To == "pod "+from.String() {
			return "", errItself
		}
		parts = append(parts, partOf(from.Network, w))
	}
	if len(parts) == 0 {
		return "", untraced("explain does not dial it")
	}
	pods := map[string]bool{}
	for _, p := range stage.Pods {
		pods[p.String()] = true
	}
	// Who is refused is told so at its own port.
	traced = slices.DeleteFunc(slices.Clone(traced), func(at string) bool { return at == from.String() })
	agrees := func(p part) bool {
		switch {
		case p.open:
			return !slices.ContainsFunc(traced, func(at string) bool { return pods[at] })
		case p.port == "":
			return len(traced) == 0
		}
		return slices.Equal(traced, Traced{p.port})
	}
	if slices.ContainsFunc(parts, agrees) {
		return "", nil
	}
	return fmt.Sprintf("ovn-trace has it come out at %q, and it is said to come out at %+v", traced, parts), nil
}
