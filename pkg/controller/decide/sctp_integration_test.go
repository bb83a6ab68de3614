//go:build integration

package decide_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// sctpPort is a raw socket for SCTP: the kernels that these tests run on need not have it. (RFC 9260.)
type sctpPort struct{ *net.IPConn }

const (
	sctpInit    = 1
	sctpInitAck = 2
)

// listenSCTP opens a socket in a guest.
func listenSCTP(t *testing.T, g *ovn.Guest) sctpPort {
	t.Helper()
	var conn *net.IPConn
	err := g.Do(func() (err error) {
		conn, err = net.ListenIP("ip4:132", nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return sctpPort{conn}
}

// say sends the first chunk of an association, or the answer to it, with the tag that the other side chose.
func (p sctpPort) say(chunk byte, from uint16, to netip.AddrPort, tag uint32) error {
	packet := make([]byte, 12+20)
	binary.BigEndian.PutUint16(packet, from)
	binary.BigEndian.PutUint16(packet[2:], to.Port())
	binary.BigEndian.PutUint32(packet[4:], tag)
	packet[12] = chunk
	binary.BigEndian.PutUint16(packet[14:], 20)
	for i, value := range []uint32{0xa701, 65536, 1<<16 | 1, 1} {
		binary.BigEndian.PutUint32(packet[16+4*i:], value)
	}
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)))
	_, err := p.WriteToIP(packet, &net.IPAddr{IP: to.Addr().AsSlice()})
	return err
}

// hears is the next packet: its chunk, where it came from and to which port.
func (p sctpPort) hears() (chunk byte, from netip.AddrPort, to uint16, err error) {
	defer wait.Limit(p, patience)()
	packet := make([]byte, 100)
	n, address, err := p.ReadFromIP(packet)
	if err != nil {
		return 0, from, 0, err
	}
	if packet = packet[:n]; n < 16 {
		return 0, from, 0, fmt.Errorf("%d bytes", n)
	}
	sum := binary.LittleEndian.Uint32(packet[8:])
	clear(packet[8:12])
	if want := crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)); sum != want {
		return 0, from, 0, fmt.Errorf("checksum %08x, want %08x", sum, want)
	}
	ip, _ := netip.AddrFromSlice(address.IP.To4())
	return packet[12], netip.AddrPortFrom(ip, binary.BigEndian.Uint16(packet)), binary.BigEndian.Uint16(packet[2:]), nil
}

func TestSCTPWithPackets(t *testing.T) {
	s := newStage(t)
	client, server := listenSCTP(t, s.pod("r", "client")), listenSCTP(t, s.pod("r", "one"))
	s.setService(dualService("r", "web"))
	s.behind("r", "web", false, "one")
	s.leads("red", "r/web", "sctp", vip4, netip.AddrPortFrom(s.own("r", "one", false), 8080))
	vip := netip.MustParseAddrPort(vip4)
	if err := client.say(sctpInit, 4000, vip, 0); err != nil {
		t.Fatal(err)
	}
	chunk, from, to, err := server.hears()
	if want := netip.AddrPortFrom(s.own("r", "client", false), 4000); err != nil || chunk != sctpInit || from != want || to != 8080 {
		t.Fatalf("the endpoint hears %d from %s at port %d (%v), want %d from %s at port 8080", chunk, from, to, err, sctpInit, want)
	}
	if err := server.say(sctpInitAck, 8080, from, 0xa701); err != nil {
		t.Fatal(err)
	}
	chunk, from, to, err = client.hears()
	if err != nil || chunk != sctpInitAck || from != vip || to != 4000 {
		t.Errorf("the client hears %d from %s at port %d (%v), want %d from %s at port 4000", chunk, from, to, err, sctpInitAck, vip)
	}
}
