//go:build integration

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// frame6 is an Ethernet frame with a packet of IPv6, which begins with the given header.
type frame6 struct {
	from, to       net.HardwareAddr
	source, target netip.Addr
	header         byte
	payload        []byte
}

func (f frame6) bytes() []byte {
	out := append(append(append([]byte{}, f.to...), f.from...), 0x86, 0xdd, 0x60, 0, 0, 0)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(f.payload))), f.header, 255)
	out = append(append(out, f.source.AsSlice()...), f.target.AsSlice()...)
	return append(out, f.payload...)
}

// options is a header of IPv6 with no options in it, hop-by-hop or for the destination, and what follows. (RFC 8200, 4.3 and 4.6.)
func options(next byte, payload []byte) []byte {
	return append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, payload...)
}

// fragment is a piece of a packet of IPv6. (RFC 8200, 4.5.)
func fragment(next byte, offset int, more bool, payload []byte) []byte {
	place := uint16(offset)
	if more {
		place |= 1
	}
	return append(append(binary.BigEndian.AppendUint16([]byte{next, 0}, place), 0, 0, 0x0a, 0x70), payload...)
}

// udp is a datagram between two ports; its checksum is nobody's business here.
func udp(from, to uint16, text string) []byte {
	out := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)
	return append(binary.BigEndian.AppendUint16(out, uint16(8+len(text))), "\x00\x00"+text...)
}

// icmp is a message of ICMP or ICMPv6.
func icmp(kind byte, text string) []byte { return append([]byte{kind, 0, 0, 0}, text...) }

// sniff gives a function that waits until a frame with the text has come to a pod's interface; false when none comes in time.
func (p *testPod) sniff() func(text string, patience time.Duration) bool {
	p.tb.Helper()
	var socket int
	must(p.tb, p.inside(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, unix.ETH_P_ALL<<8); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: link.Attrs().Index})
	}))
	p.tb.Cleanup(func() { _ = unix.Close(socket) })
	buffer := make([]byte, 1<<16)
	return func(text string, patience time.Duration) bool {
		p.tb.Helper()
		for until := time.Now().Add(patience); ; {
			left := unix.NsecToTimeval(int64(max(time.Until(until), time.Millisecond)))
			must(p.tb, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left))
			n, _, err := unix.Recvfrom(socket, buffer, 0)
			if err == nil && bytes.Contains(buffer[:n], []byte(text)) {
				return true
			}
			if time.Now().After(until) {
				return false
			}
		}
	}
}

// linkLocal is the address that an interface gives itself by its MAC address. (RFC 4291, appendix A.)
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}

// TestForgedRoutersAndServers: what a pod sends in the name of a router or of a DHCP server does not come to its neighbours, however it
// is wrapped. Without the guard it does.
func TestForgedRoutersAndServers(t *testing.T) {
	j := newJudged(t)
	ctx, cancel := context.WithCancel(t.Context())
	watch := sentry{socket: bridgeSocket(j.db, "br-int"), log: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	go func() { done <- watch.serve(ctx) }()
	t.Cleanup(cancel)
	attacker, victim := j.pod("red", "attacker", "10.0.0.5", "a"), j.pod("red", "victim", "10.0.0.6", "b")
	arrives := victim.sniff()
	mac := func(text string) net.HardwareAddr {
		m, err := net.ParseMAC(text)
		must(t, err)
		return m
	}
	own, its := mac(attacker.nic.MAC), mac(victim.nic.MAC)
	everybody, all := mac("ff:ff:ff:ff:ff:ff"), mac("33:33:00:00:00:01")
	local, global := linkLocal(own), attacker.nic.Addresses[1].Addr()
	address := netip.MustParseAddr
	v4 := func(to net.HardwareAddr, target string, protocol byte, payload []byte) []byte {
		return frame{from: own, to: to, source: address("10.0.0.5"), target: address(target), protocol: protocol, payload: payload}.bytes()
	}
	v6 := func(to net.HardwareAddr, source netip.Addr, target string, header byte, payload []byte) []byte {
		return frame6{from: own, to: to, source: source, target: address(target), header: header, payload: payload}.bytes()
	}
	const hopByHop, forDestination, piece, advertisement, redirect6, redirect4 = 0, 60, unix.IPPROTO_FRAGMENT, 134, 137, 5
	neighbour, neighbour4 := victim.nic.Addresses[1].Addr().String(), "10.0.0.6"
	forged := map[string]func(text string) []byte{
		"router advertisement": func(text string) []byte {
			return v6(all, local, "ff02::1", unix.IPPROTO_ICMPV6, icmp(advertisement, text))
		},
		"router advertisement to one": func(text string) []byte {
			return v6(its, local, neighbour, unix.IPPROTO_ICMPV6, icmp(advertisement, text))
		},
		"router advertisement behind hop-by-hop options": func(text string) []byte {
			return v6(all, local, "ff02::1", hopByHop, options(unix.IPPROTO_ICMPV6, icmp(advertisement, text)))
		},
		"router advertisement behind two headers": func(text string) []byte {
			return v6(all, local, "ff02::1", hopByHop, options(forDestination, options(unix.IPPROTO_ICMPV6, icmp(advertisement, text))))
		},
		"router advertisement in the second fragment": func(text string) []byte {
			attacker.sendFrame(v6(all, local, "ff02::1", piece, fragment(forDestination, 0, true, options(unix.IPPROTO_ICMPV6, nil))))
			return v6(all, local, "ff02::1", piece, fragment(forDestination, 8, false, icmp(advertisement, text)))
		},
		"router advertisement in one fragment": func(text string) []byte {
			return v6(all, local, "ff02::1", piece, fragment(unix.IPPROTO_ICMPV6, 0, false, icmp(advertisement, text)))
		},
		"redirect of IPv6":   func(text string) []byte { return v6(its, local, neighbour, unix.IPPROTO_ICMPV6, icmp(redirect6, text)) },
		"redirect of IPv4":   func(text string) []byte { return v4(its, neighbour4, unix.IPPROTO_ICMP, icmp(redirect4, text)) },
		"DHCP offer":         func(text string) []byte { return v4(everybody, "255.255.255.255", unix.IPPROTO_UDP, udp(67, 68, text)) },
		"DHCP offer to one":  func(text string) []byte { return v4(its, neighbour4, unix.IPPROTO_UDP, udp(67, 68, text)) },
		"DHCP from any port": func(text string) []byte { return v4(its, neighbour4, unix.IPPROTO_UDP, udp(4711, 68, text)) },
		"DHCPv6 advertisement": func(text string) []byte {
			return v6(its, local, linkLocal(its).String(), unix.IPPROTO_UDP, udp(547, 546, text))
		},
		"DHCPv6 from a global address": func(text string) []byte {
			return v6(its, global, neighbour, hopByHop, options(unix.IPPROTO_UDP, udp(547, 546, text)))
		},
	}
	honest := map[string]func(text string) []byte{
		"IPv4": func(text string) []byte { return v4(its, neighbour4, unix.IPPROTO_UDP, udp(67, 9, text)) },
		"IPv6": func(text string) []byte { return v6(its, global, neighbour, unix.IPPROTO_UDP, udp(547, 9, text)) },
		"IPv6 behind options": func(text string) []byte {
			return v6(its, global, neighbour, hopByHop, options(unix.IPPROTO_UDP, udp(9, 9, text)))
		},
		"a fragment of IPv6": func(text string) []byte {
			return v6(its, global, neighbour, piece, fragment(unix.IPPROTO_UDP, 0, true, udp(9, 9, text+"...")))
		},
		"a client's search by DHCP": func(text string) []byte { return v4(everybody, "255.255.255.255", unix.IPPROTO_UDP, udp(68, 67, text)) },
		"ping": func(text string) []byte {
			return v6(its, local, linkLocal(its).String(), unix.IPPROTO_ICMPV6, icmp(128, text))
		},
	}
	try := func(name string, made func(string) []byte, want bool) {
		t.Run(fmt.Sprintf("%s, arrives %t", name, want), func(t *testing.T) {
			attacker.sendFrame(made("marked " + name + "."))
			patience := 5 * time.Second
			if !want {
				// What is sent later arrives later.
				attacker.sendFrame(honest["IPv4"]("sentinel of " + name + "."))
				if got := arrives("marked "+name+".", 300*time.Millisecond); got {
					t.Error("it arrives")
				}
				return
			}
			if !arrives("marked "+name+".", patience) {
				t.Error("it does not arrive")
			}
		})
	}
	for name, made := range honest {
		try(name, made, true)
	}
	for name, made := range forged {
		try(name, made, false)
	}
	// ovn-controller begins with an empty bridge.
	j.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", "unix:"+watch.socket, fmt.Sprintf("cookie=%#x/-1", uint64(sentryCookie)))
	await(t, func() *bool {
		if found := strings.Contains(j.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "unix:"+watch.socket, "table=0"), "icmp_type=134"); found {
			return &found
		}
		return nil
	})
	j.halt()
	cancel()
	must(t, <-done)
	j.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", "unix:"+watch.socket, fmt.Sprintf("cookie=%#x/-1", uint64(sentryCookie)))
	j.nbctl("--wait=hv", "clear", "Logical_Switch", "red/a", "acls")
	for name, made := range forged {
		try(name+", without the guard", made, true)
	}
}
