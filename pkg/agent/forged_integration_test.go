//go:build integration

package agent

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// arpReply is the body of an ARP reply in which whoever has a MAC address claims an IP address, followed by a text.
func arpReply(mac net.HardwareAddr, claimed, to netip.Addr, text string) []byte {
	out := append([]byte{0, 1, 0x08, 0, 6, 4, 0, 2}, mac...)
	out = append(append(out, claimed.AsSlice()...), make([]byte, 6)...)
	return append(append(out, to.AsSlice()...), text...)
}

// discoveryOption is an option of neighbour discovery, padded as it must be. (RFC 4861, 4.6.)
func discoveryOption(kind byte, content []byte) []byte {
	size := (2 + len(content) + 7) / 8
	out := append([]byte{kind, byte(size)}, content...)
	return append(out, make([]byte, 8*size-len(out))...)
}

// discoveryMessage is a message of neighbour discovery: a solicitation or an advertisement of a target, with a MAC address in it, and a text
// in an option that nobody knows.
func discoveryMessage(kind byte, target netip.Addr, mac net.HardwareAddr, text string) []byte {
	link := byte(1) // the source's
	if kind == 136 {
		link = 2 // the target's
	}
	out := append([]byte{kind, 0, 0, 0, 0x20, 0, 0, 0}, target.AsSlice()...)
	return append(append(out, discoveryOption(link, mac)...), discoveryOption(254, []byte(text))...)
}

// TestForgedNeighbours: whatever a pod sends in the name of another, by Ethernet, IP, ARP and neighbour discovery, does not come to its
// neighbours, nor does a frame with a VLAN's tag. Without the port's security, and with tags passed through, all of it does.
func TestForgedNeighbours(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	attacker, victim := n.addGuest(a, "red", "attacker", 5, 5), n.addGuest(a, "red", "victim", 6, 6)
	third := n.addGuest(a, "red", "third", 7, 7)
	arrives := victim.sniff()
	mac := func(text string) net.HardwareAddr {
		m, err := net.ParseMAC(text)
		must(t, err)
		return m
	}
	own, its, other := mac(attacker.nic.MAC), mac(victim.nic.MAC), mac(third.nic.MAC)
	everybody, all := mac("ff:ff:ff:ff:ff:ff"), mac("33:33:00:00:00:01")
	address := func(p *testPod, family int) netip.Addr { return p.nic.Addresses[family].Addr() }
	v4 := func(from net.HardwareAddr, source netip.Addr, text string) []byte {
		return frame{from: from, to: its, source: source, target: address(victim, 0), protocol: unix.IPPROTO_UDP, payload: udp(9, 9, text)}.bytes()
	}
	v6 := func(from net.HardwareAddr, source netip.Addr, text string) []byte {
		return frame6{from: from, to: its, source: source, target: address(victim, 1), header: unix.IPPROTO_UDP, payload: udp(9, 9, text)}.bytes()
	}
	arp := func(to, from, claims net.HardwareAddr, claimed netip.Addr, text string) []byte {
		head := append(append(append([]byte{}, to...), from...), 0x08, 0x06)
		return append(head, arpReply(claims, claimed, address(victim, 0), text)...)
	}
	discovery := func(kind byte, source, target netip.Addr, claims net.HardwareAddr, text string) []byte {
		return frame6{from: own, to: all, source: source, target: netip.MustParseAddr("ff02::1"), header: unix.IPPROTO_ICMPV6, payload: discoveryMessage(kind, target, claims, text)}.bytes()
	}
	tagged := func(raw []byte) []byte {
		out := append(append([]byte{}, raw[:12]...), 0x81, 0x00, 0, 7)
		return append(out, raw[12:]...)
	}
	const solicitation, advertisement = 135, 136
	gateway4, gateway6 := attacker.nic.Gateways[0], attacker.nic.Gateways[1]
	// OVN lets a pod solicit with another's MAC address as its own, as long as it names no other address than its own: it leads
	// astray nobody's packets but those for itself.
	secured := map[string]func(text string) []byte{
		"another MAC address":             func(text string) []byte { return v4(other, address(attacker, 0), text) },
		"a neighbour's address":           func(text string) []byte { return v4(own, address(third, 0), text) },
		"the gateway's address":           func(text string) []byte { return v4(own, gateway4, text) },
		"an address of nobody":            func(text string) []byte { return v4(own, netip.MustParseAddr("10.0.0.77"), text) },
		"a neighbour and all that is his": func(text string) []byte { return v4(other, address(third, 0), text) },
		"a neighbour's address by IPv6":   func(text string) []byte { return v6(own, address(third, 1), text) },
		"a neighbour's local address":     func(text string) []byte { return v6(own, linkLocal(other), text) },
		"ARP: the gateway, to all":        func(text string) []byte { return arp(everybody, own, own, gateway4, text) },
		"ARP: the gateway, to one":        func(text string) []byte { return arp(its, own, own, gateway4, text) },
		"ARP: a neighbour":                func(text string) []byte { return arp(its, own, own, address(third, 0), text) },
		"ARP: its address is elsewhere":   func(text string) []byte { return arp(its, own, other, address(attacker, 0), text) },
		"an advertisement of the gateway": func(text string) []byte { return discovery(advertisement, linkLocal(own), gateway6, own, text) },
		"an advertisement of a neighbour": func(text string) []byte {
			return discovery(advertisement, address(attacker, 1), address(third, 1), own, text)
		},
		"an advertisement, it is elsewhere": func(text string) []byte {
			return discovery(advertisement, linkLocal(own), address(attacker, 1), other, text)
		},
		"a solicitation by a neighbour": func(text string) []byte {
			return discovery(solicitation, address(third, 1), address(victim, 1), own, text)
		},
	}
	honest := map[string]func(text string) []byte{
		"IPv4": func(text string) []byte { return v4(own, address(attacker, 0), text) },
		"IPv6": func(text string) []byte { return v6(own, address(attacker, 1), text) },
		"ARP":  func(text string) []byte { return arp(everybody, own, own, address(attacker, 0), text) },
		"an advertisement": func(text string) []byte {
			return discovery(advertisement, linkLocal(own), address(attacker, 1), own, text)
		},
	}
	tags := map[string]func(text string) []byte{
		"a VLAN's tag": func(text string) []byte { return tagged(honest["IPv4"](text)) },
	}
	try := func(what string, frames map[string]func(string) []byte, want bool) {
		t.Helper()
		for name, made := range frames {
			t.Run(name+", "+what, func(t *testing.T) {
				attacker.sendFrame(made("marked " + name + "."))
				if !want {
					// Frames of a port keep their order: this one comes last.
					attacker.sendFrame(honest["IPv4"]("last of " + name + "."))
				}
				got := arrives("marked "+name+".", 300*time.Millisecond)
				// Open vSwitch judges by what it has cached for a moment more than the rows are there.
				for tries := 0; want && !got && tries < 20; tries++ {
					attacker.sendFrame(made("marked " + name + "."))
					got = arrives("marked "+name+".", 300*time.Millisecond)
				}
				if got != want {
					t.Errorf("it arrives: %t, want %t", got, want)
				}
			})
		}
	}
	try("honest", honest, true)
	try("held", secured, false)
	try("held", tags, false)
	n.nbctl("--wait=hv", "set", "Logical_Switch", "red", "other_config:vlan-passthru=true")
	try("passed through", tags, true)
	n.nbctl("--wait=hv", "lsp-set-port-security", attacker.request.Pod.Key().String())
	try("without port security", secured, true)
}
