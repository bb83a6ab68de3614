package frames

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// End is an interface as its neighbours know it.
type End struct {
	MAC    net.HardwareAddr
	V4, V6 netip.Addr
}

// Table has frames by what is said of them. Those of one name are sent in their order, and the last carries the text.
type Table map[string]func(text string) [][]byte

// Players are those between whom frames go: who sends, who receives, a third whose name is used, and the addresses of their router.
type Players struct {
	Sender, Receiver, Third End
	Router4, Router6        netip.Addr
}

// port is where receivers may listen: datagrams between others' ports are for machines.
const port = 9

func (p Players) v4(from net.HardwareAddr, source netip.Addr, text string) [][]byte {
	return [][]byte{
		V4{
			From: from, To: p.Receiver.MAC, Source: source, Target: p.Receiver.V4, Protocol: unix.IPPROTO_UDP, Payload: UDP(port, port, text),
		}.Bytes(),
	}
}

func (p Players) v6(from net.HardwareAddr, source netip.Addr, text string) [][]byte {
	return [][]byte{
		V6{
			From: from, To: p.Receiver.MAC, Source: source, Target: p.Receiver.V6, Header: unix.IPPROTO_UDP, Payload: UDP(port, port, text),
		}.Bytes(),
	}
}

func (p Players) arp(to, claims net.HardwareAddr, claimed netip.Addr, text string) [][]byte {
	return [][]byte{ARPReply(to, p.Sender.MAC, claims, claimed, p.Receiver.V4, text)}
}

func (p Players) discovery(kind byte, source, target netip.Addr, claims net.HardwareAddr, text string) [][]byte {
	return [][]byte{V6{
		From: p.Sender.MAC, To: allNodes(), Source: source, Target: netip.MustParseAddr("ff02::1"), Header: unix.IPPROTO_ICMPV6,
		Payload: discovery(kind, target, claims, text),
	}.Bytes()}
}

// Masks are frames in the name of another, by Ethernet, IP, ARP and neighbour discovery. The security of OVN's ports drops all of them. It
// lets a pod solicit with another's MAC address as its own, as long as it names no other address than its own: that leads astray
// nobody's packets but those for itself, and is not among them.
func (p Players) Masks() Table {
	own, third := p.Sender, p.Third
	nobody := third.V4
	for range 70 {
		nobody = nobody.Next()
	}
	return Table{
		"another MAC address":             func(text string) [][]byte { return p.v4(third.MAC, own.V4, text) },
		"a neighbour's address":           func(text string) [][]byte { return p.v4(own.MAC, third.V4, text) },
		"the gateway's address":           func(text string) [][]byte { return p.v4(own.MAC, p.Router4, text) },
		"an address of nobody":            func(text string) [][]byte { return p.v4(own.MAC, nobody, text) },
		"a neighbour and all that is his": func(text string) [][]byte { return p.v4(third.MAC, third.V4, text) },
		"a neighbour's address by IPv6":   func(text string) [][]byte { return p.v6(own.MAC, third.V6, text) },
		"a neighbour's local address":     func(text string) [][]byte { return p.v6(own.MAC, LinkLocal(third.MAC), text) },
		"ARP: the gateway, to all":        func(text string) [][]byte { return p.arp(Everybody(), own.MAC, p.Router4, text) },
		"ARP: the gateway, to one":        func(text string) [][]byte { return p.arp(p.Receiver.MAC, own.MAC, p.Router4, text) },
		"ARP: a neighbour":                func(text string) [][]byte { return p.arp(p.Receiver.MAC, own.MAC, third.V4, text) },
		"ARP: its address is elsewhere":   func(text string) [][]byte { return p.arp(p.Receiver.MAC, third.MAC, own.V4, text) },
		"an advertisement of the gateway": func(text string) [][]byte {
			return p.discovery(neighbourAdvertisement, LinkLocal(own.MAC), p.Router6, own.MAC, text)
		},
		"an advertisement of a neighbour": func(text string) [][]byte {
			return p.discovery(neighbourAdvertisement, own.V6, third.V6, own.MAC, text)
		},
		"an advertisement, it is elsewhere": func(text string) [][]byte {
			return p.discovery(neighbourAdvertisement, LinkLocal(own.MAC), own.V6, third.MAC, text)
		},
		"a solicitation by a neighbour": func(text string) [][]byte {
			return p.discovery(neighbourSolicitation, third.V6, p.Receiver.V6, own.MAC, text)
		},
	}
}

// Servers are frames in the name of a router or of a DHCP server, which have the sender's own addresses, however they are wrapped.
func (p Players) Servers() Table {
	const hopByHop, forDestination, piece, redirect4 = 0, 60, unix.IPPROTO_FRAGMENT, 5
	own, local := p.Sender, LinkLocal(p.Sender.MAC)
	v4 := func(to net.HardwareAddr, target netip.Addr, protocol byte, payload []byte) [][]byte {
		return [][]byte{V4{From: own.MAC, To: to, Source: own.V4, Target: target, Protocol: protocol, Payload: payload}.Bytes()}
	}
	v6 := func(to net.HardwareAddr, source, target netip.Addr, header byte, payload []byte) []byte {
		return V6{From: own.MAC, To: to, Source: source, Target: target, Header: header, Payload: payload}.Bytes()
	}
	toAll := func(header byte, payload []byte) []byte {
		return v6(allNodes(), local, netip.MustParseAddr("ff02::1"), header, payload)
	}
	toOne := func(source netip.Addr, header byte, payload []byte) []byte {
		return v6(p.Receiver.MAC, source, p.Receiver.V6, header, payload)
	}
	all4 := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return Table{
		"router advertisement": func(text string) [][]byte {
			return [][]byte{toAll(unix.IPPROTO_ICMPV6, ICMP(routerAdvertisement, text))}
		},
		"router advertisement to one": func(text string) [][]byte {
			return [][]byte{toOne(local, unix.IPPROTO_ICMPV6, ICMP(routerAdvertisement, text))}
		},
		"router advertisement behind hop-by-hop options": func(text string) [][]byte {
			return [][]byte{toAll(hopByHop, Options(unix.IPPROTO_ICMPV6, ICMP(routerAdvertisement, text)))}
		},
		"router advertisement behind two headers": func(text string) [][]byte {
			return [][]byte{toAll(hopByHop, Options(forDestination, Options(unix.IPPROTO_ICMPV6, ICMP(routerAdvertisement, text))))}
		},
		"router advertisement in the second fragment": func(text string) [][]byte {
			return [][]byte{
				toAll(piece, Fragment(forDestination, 0, true, Options(unix.IPPROTO_ICMPV6, nil))),
				toAll(piece, Fragment(forDestination, 8, false, ICMP(routerAdvertisement, text))),
			}
		},
		"router advertisement in one fragment": func(text string) [][]byte {
			return [][]byte{toAll(piece, Fragment(unix.IPPROTO_ICMPV6, 0, false, ICMP(routerAdvertisement, text)))}
		},
		"redirect of IPv6": func(text string) [][]byte { return [][]byte{toOne(local, unix.IPPROTO_ICMPV6, ICMP(redirect6, text))} },
		"redirect of IPv4": func(text string) [][]byte {
			return v4(p.Receiver.MAC, p.Receiver.V4, unix.IPPROTO_ICMP, ICMP(redirect4, text))
		},
		"DHCP offer": func(text string) [][]byte { return v4(Everybody(), all4, unix.IPPROTO_UDP, UDP(67, 68, text)) },
		"DHCP offer to one": func(text string) [][]byte {
			return v4(p.Receiver.MAC, p.Receiver.V4, unix.IPPROTO_UDP, UDP(67, 68, text))
		},
		"DHCP from any port": func(text string) [][]byte {
			return v4(p.Receiver.MAC, p.Receiver.V4, unix.IPPROTO_UDP, UDP(4711, 68, text))
		},
		"DHCPv6 advertisement": func(text string) [][]byte {
			return [][]byte{v6(p.Receiver.MAC, local, LinkLocal(p.Receiver.MAC), unix.IPPROTO_UDP, UDP(547, 546, text))}
		},
		"DHCPv6 from a global address": func(text string) [][]byte {
			return [][]byte{toOne(own.V6, hopByHop, Options(unix.IPPROTO_UDP, UDP(547, 546, text)))}
		},
	}
}

// Tagged are honest frames but for a VLAN's tag. (IEEE 802.1Q, 9.)
func (p Players) Tagged() Table {
	tag := func(raw [][]byte) [][]byte {
		tagged := append(append([]byte{}, raw[0][:12]...), 0x81, 0x00, 0, 7)
		return [][]byte{append(tagged, raw[0][12:]...)}
	}
	return Table{
		"a VLAN's tag":       func(text string) [][]byte { return tag(p.v4(p.Sender.MAC, p.Sender.V4, text)) },
		"a VLAN's tag, IPv6": func(text string) [][]byte { return tag(p.v6(p.Sender.MAC, p.Sender.V6, text)) },
	}
}

// Honest are frames as an ordinary pod may send them, among them those that are most like forged ones.
func (p Players) Honest() Table {
	const hopByHop, piece, echo = 0, unix.IPPROTO_FRAGMENT, 128
	own, local := p.Sender, LinkLocal(p.Sender.MAC)
	v6 := func(source, target netip.Addr, header byte, payload []byte) [][]byte {
		return [][]byte{V6{From: own.MAC, To: p.Receiver.MAC, Source: source, Target: target, Header: header, Payload: payload}.Bytes()}
	}
	return Table{
		"IPv4": func(text string) [][]byte { return p.v4(own.MAC, own.V4, text) },
		"IPv6": func(text string) [][]byte { return p.v6(own.MAC, own.V6, text) },
		"ARP":  func(text string) [][]byte { return p.arp(Everybody(), own.MAC, own.V4, text) },
		"an advertisement": func(text string) [][]byte {
			return p.discovery(neighbourAdvertisement, local, own.V6, own.MAC, text)
		},
		"IPv6 behind options": func(text string) [][]byte {
			return v6(own.V6, p.Receiver.V6, hopByHop, Options(unix.IPPROTO_UDP, UDP(9, 9, text)))
		},
		"a fragment of IPv6": func(text string) [][]byte {
			return v6(own.V6, p.Receiver.V6, piece, Fragment(unix.IPPROTO_UDP, 0, true, UDP(9, 9, text+"...")))
		},
		"from a DHCP server's port": func(text string) [][]byte {
			return [][]byte{
				V4{
					From: own.MAC, To: p.Receiver.MAC, Source: own.V4, Target: p.Receiver.V4, Protocol: unix.IPPROTO_UDP, Payload: UDP(67, 9, text),
				}.Bytes(),
			}
		},
		"a client's search by DHCP": func(text string) [][]byte {
			return [][]byte{
				V4{
					From: own.MAC, To: Everybody(), Source: own.V4, Target: netip.AddrFrom4([4]byte{255, 255, 255, 255}), Protocol: unix.IPPROTO_UDP,
					Payload: UDP(68, 67, text),
				}.Bytes(),
			}
		},
		"ping": func(text string) [][]byte {
			return v6(local, LinkLocal(p.Receiver.MAC), unix.IPPROTO_ICMPV6, ICMP(echo, text))
		},
	}
}
