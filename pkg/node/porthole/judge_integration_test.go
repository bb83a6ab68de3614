//go:build integration

package porthole

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/egress"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// TestPortholesDoAsJudged sends packets from a pod to both ends of all ranges that a porthole knows, to their neighbours, and to all
// addresses with ports of their own. The porthole lets those pass that egress.Rules say pass, and no others.
func TestPortholesDoAsJudged(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"services": func(*Spec) {},
		"closed":   func(s *Spec) { s.Egress, s.Infra, s.DNS = model.EgressNone, model.InfraNone, nil },
		"no API":   func(s *Spec) { s.Infra = model.InfraNone },
		"no names": func(s *Spec) { s.DNS = nil },
		"direct":   func(s *Spec) { s.Infra = model.InfraDirect },
		"inside":   func(s *Spec) { s.Infra, s.Egress, s.DNS = model.InfraDirect, model.EgressNone, nil },
		"consumer": func(s *Spec) { s.Consumer = true },
		"provider": func(s *Spec) { s.Provider, s.Egress = true, model.EgressNone },
		"both":     func(s *Spec) { s.Consumer, s.Provider = true, true },
		"addressed": func(s *Spec) {
			s.Consumer, s.Infra, s.Addressed = true, model.InfraDirect, parsed("10.3.0.0/24", "10.96.128.0/17", "fd00:3::/64")
		},
		"servers of IPv4": func(s *Spec) { s.Cluster.Servers = s.Cluster.Servers[:2] },
		"relayed": func(s *Spec) {
			s.API, s.Cluster.Servers = s.API[:1], s.Cluster.Servers[:2]
			rules := s.Rules().SixOnly()
			s.DNS, s.API, s.Relayed = rules.DNS, rules.API, rules.Relayed
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, spec := keeper(t), testSpec("judged")
			change(&spec)
			must(t, k.EnsureHost(testHost()))
			must(t, k.Ensure(spec))
			rules, p := spec.Rules(), probing(t, spec)
			told, passed := 0, 0
			for _, asked := range askable(rules) {
				want := rules.Judge(asked).Pass
				answer := p.send(asked)
				if answer.told {
					told++
				}
				if answer.passed {
					passed++
				}
				if answer.passed != want {
					t.Errorf("%s %s port %d: passes %t, judged %+v", asked.Protocol, asked.To, asked.Port, answer.passed, rules.Judge(asked))
				}
			}
			t.Logf("%d pass, %d are told at once that they do not", passed, told)
			if told < 20 || passed == 0 && rules.Egress == model.EgressNode {
				t.Error("that is too few to be worth asking")
			}
		})
	}
}

// askable are packets to all that rules know.
func askable(r egress.Rules) (out []egress.Packet) {
	at := map[netip.Addr]bool{}
	for _, p := range slices.Concat(model.Never4(), model.Never6(), r.ServiceRanges, r.Addressed, r.Faces, r.Infrastructure, r.Closed) {
		first, last := p.Masked().Addr(), rangeEnd(p)
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if !a.IsValid() {
				continue
			}
			at[a] = true
			if four := a.AsSlice(); a.Is4() {
				behind := [16]byte{1: 0x64, 2: 0xff, 3: 0x9b, 12: four[0], 13: four[1], 14: four[2], 15: four[3]}
				at[netip.AddrFrom16(behind)] = true
			}
		}
	}
	at[netip.MustParseAddr("203.0.113.80")], at[netip.MustParseAddr("2001:db8:80::1")] = true, true
	for a := range at {
		out = append(out, egress.Packet{To: a, Port: 80, Protocol: model.TCP})
	}
	for _, e := range slices.Concat(r.API, r.Relayed, r.Servers) {
		for _, port := range []uint16{443, 6443} {
			for _, protocol := range []model.Protocol{model.TCP, model.UDP} {
				out = append(out, egress.Packet{To: e.Addr(), Port: port, Protocol: protocol})
			}
		}
	}
	for _, a := range append(slices.Clone(r.DNS), model.NamesAddress6()) {
		for _, port := range []uint16{53, 9153} {
			out = append(out, egress.Packet{To: a, Port: port, Protocol: model.TCP})
		}
	}
	slices.SortFunc(out, func(a, b egress.Packet) int { return a.To.Compare(b.To) })
	return out
}

// rangeEnd is the last address of a range.
func rangeEnd(p netip.Prefix) netip.Addr {
	all := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(all)*8; bit++ {
		all[bit/8] |= 1 << (7 - bit%8)
	}
	out, _ := netip.AddrFromSlice(all)
	return out
}

// prober sends packets into a porthole by the Network's link, and sees what comes out of it.
type prober struct {
	t *testing.T
	// sources are a pod's own addresses, by whether they are of IPv4.
	sources map[bool]netip.Addr
	// network and host are sockets at the two links' ends.
	network, host int
	// port is the next packet's own.
	port uint16
}

// outcome is what became of a packet: it came to the node or to a server in the porthole, or its sender was told that it did not.
type outcome struct{ passed, told bool }

func probing(t *testing.T, spec Spec) *prober {
	t.Helper()
	p := &prober{t: t, sources: map[bool]netip.Addr{}, port: 20000}
	for _, pod := range spec.Pods {
		p.sources[pod.Own.Is4()] = pod.Own
	}
	p.network, p.host = listening(t, spec.id().Name()), listening(t, spec.id().HostLink())
	must(t, ns.WithNetNSPath(spec.id().NetnsPath(), func(ns.NetNS) error {
		var at []netip.AddrPort
		for _, a := range spec.DNS {
			at = append(at, netip.AddrPortFrom(a, dnsPort))
		}
		for _, a := range append(at, spec.Relayed...) {
			l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
			if err != nil {
				return fmt.Errorf("listen at %s: %w", a, err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		return nil
	}))
	// The links have just been brought up, and lose what is sent before they are.
	wait.Eventually(t, wait.Patience, "the porthole lets something pass or refuses it", func(context.Context) error {
		if _, up := p.follow(true, 50*time.Millisecond); !up {
			return errors.New("nothing is seen")
		}
		return nil
	})
	return p
}

// listening is a socket for all that crosses a link.
func listening(t *testing.T, link string) int {
	t.Helper()
	at, err := net.InterfaceByName(link)
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: at.Index})) // ETH_P_ALL
	return fd
}

// send sends a packet, and after it one whose outcome is known to come: what has become of the first one is seen by then.
func (p *prober) send(asked egress.Packet) outcome {
	p.t.Helper()
	first := p.port
	p.port++
	p.write(asked, first)
	seen, all := p.follow(asked.To.Is4(), 5*time.Second)
	if !all {
		p.t.Fatalf("nothing is seen of what follows %+v", asked)
	}
	return seen[first]
}

// follow sends a packet that passes or whose sender is told, and returns all that is seen until its outcome is; false when it is not
// seen in time.
func (p *prober) follow(v4 bool, within time.Duration) (map[uint16]outcome, bool) {
	p.t.Helper()
	last := p.port
	p.port++
	p.write(egress.Packet{To: p.known(v4), Port: 80, Protocol: model.TCP}, last)
	seen := map[uint16]outcome{}
	for deadline := time.Now().Add(within); seen[last] == (outcome{}); {
		left := time.Until(deadline)
		if left <= 0 {
			return seen, false
		}
		ready := []unix.PollFd{{Fd: int32(p.network), Events: unix.POLLIN}, {Fd: int32(p.host), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			p.t.Fatal(err)
		}
		for _, fd := range []int{p.host, p.network} {
			p.read(fd, seen)
		}
	}
	return seen, true
}

// known is an address outside of the cluster.
func (*prober) known(v4 bool) netip.Addr {
	if v4 {
		return netip.MustParseAddr("203.0.113.80")
	}
	return netip.MustParseAddr("2001:db8:80::1")
}

// write sends a connection's first packet from a port.
func (p *prober) write(asked egress.Packet, from uint16) {
	p.t.Helper()
	ethernet := &layers.Ethernet{EthernetType: layers.EthernetTypeIPv6}
	ethernet.SrcMAC, _ = net.ParseMAC(model.EdgeMAC)
	ethernet.DstMAC, _ = net.ParseMAC(model.PortholeMAC)
	protocol := layers.IPProtocolTCP
	if asked.Protocol == model.UDP {
		protocol = layers.IPProtocolUDP
	}
	src, dst := net.IP(p.sources[asked.To.Is4()].AsSlice()), net.IP(asked.To.AsSlice())
	var network interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	} = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: src, DstIP: dst}
	if asked.To.Is4() {
		ethernet.EthernetType = layers.EthernetTypeIPv4
		network = &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: src, DstIP: dst}
	}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(from), DstPort: layers.TCPPort(asked.Port), SYN: true, Window: 1024, Seq: uint32(from)}
	udp := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(asked.Port)}
	var transport gopacket.SerializableLayer = tcp
	must(p.t, tcp.SetNetworkLayerForChecksum(network))
	must(p.t, udp.SetNetworkLayerForChecksum(network))
	if asked.Protocol == model.UDP {
		transport = udp
	}
	frame := gopacket.NewSerializeBuffer()
	complete := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	must(p.t, gopacket.SerializeLayers(frame, complete, ethernet, network, transport))
	_, err := unix.Write(p.network, frame.Bytes())
	must(p.t, err)
}

// read takes in all that a socket has: by the packets' ports it is known which they are.
func (p *prober) read(fd int, seen map[uint16]outcome) {
	buffer := make([]byte, 2048)
	for {
		n, err := unix.Read(fd, buffer)
		if err != nil {
			return
		}
		packet := gopacket.NewPacket(buffer[:n], layers.LayerTypeEthernet, gopacket.Default)
		if udp, is := packet.Layer(layers.LayerTypeUDP).(*layers.UDP); is && fd == p.host {
			seen[uint16(udp.SrcPort)] = outcome{passed: true}
		}
		tcp, is := packet.Layer(layers.LayerTypeTCP).(*layers.TCP)
		switch {
		case !is:
		case fd == p.host && tcp.SYN && !tcp.ACK:
			seen[uint16(tcp.SrcPort)] = outcome{passed: true}
		case fd == p.network && tcp.SYN && tcp.ACK:
			seen[uint16(tcp.DstPort)] = outcome{passed: true}
		case fd == p.network && tcp.RST && !seen[uint16(tcp.DstPort)].passed:
			seen[uint16(tcp.DstPort)] = outcome{told: true}
		}
	}
}
