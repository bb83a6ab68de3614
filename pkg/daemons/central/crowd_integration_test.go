//go:build integration

package central

import (
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// linked makes two network namespaces with a link between them, and returns them. The calling thread is in the first one, at
// 192.0.2.1; 192.0.2.2 and 192.0.2.3 are the second one's.
func linked(t *testing.T) (server, client netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread() // The thread ends with the test.
	before, err := netns.Get()
	must(t, err)
	client, err = netns.New()
	must(t, err)
	server, err = netns.New()
	must(t, err)
	t.Cleanup(func() {
		_ = netns.Set(before)
		for _, ns := range []netns.NsHandle{before, client, server} {
			_ = ns.Close()
		}
	})
	must(t,
		netlink.LinkAdd(
			&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "to-client"}, PeerName: "to-server", PeerNamespace: netlink.NsFd(client)}))
	for _, end := range []struct {
		ns        netns.NsHandle
		link      string
		addresses []string
	}{{client, "to-server", []string{"192.0.2.2/24", "192.0.2.3/24"}}, {server, "to-client", []string{"192.0.2.1/24"}}} {
		must(t, netns.Set(end.ns))
		link, err := netlink.LinkByName(end.link)
		must(t, err)
		for _, text := range end.addresses {
			address, err := netlink.ParseAddr(text)
			must(t, err)
			must(t, netlink.AddrAdd(link, address))
		}
		must(t, netlink.LinkSetUp(link))
	}
	return server, client
}

// TestClientsAreBoundedByAddress: one address has maxOfAddress connections to a database, others get in beside it, and who closes
// one may have another. The control is the same without the table.
func TestClientsAreBoundedByAddress(t *testing.T) {
	server, client := linked(t)
	for _, bounded := range []bool{false, true} {
		listener, err := net.Listen("tcp", net.JoinHostPort("192.0.2.1", strconv.Itoa(int(Southbound.ClientPort()))))
		must(t, err)
		if bounded {
			conn, err := nftables.New()
			must(t, err)
			must(t, boundClients(conn, Southbound))
		}
		dial := func(from string) (net.Conn, error) {
			must(t, netns.Set(client))
			defer func() { must(t, netns.Set(server)) }()
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 3 * time.Second}).Dial("tcp", listener.Addr().String())
		}
		var open []net.Conn
		for range maxOfAddress {
			conn, err := dial("192.0.2.2")
			if err != nil {
				t.Fatalf("bounded %t: connection %d: %v", bounded, len(open)+1, err)
			}
			open = append(open, conn)
		}
		more, err := dial("192.0.2.2")
		if (err != nil) != bounded {
			t.Errorf("bounded %t: one more: %v", bounded, err)
		}
		if err == nil {
			open = append(open, more)
		}
		other, err := dial("192.0.2.3")
		if err != nil {
			t.Fatalf("bounded %t: another address: %v", bounded, err)
		}
		_ = open[0].Close()
		accepted, err := listener.Accept() // The first one's.
		must(t, err)
		_ = accepted.Close()
		again, err := dial("192.0.2.2")
		if err != nil {
			t.Errorf("bounded %t: after one was closed: %v", bounded, err)
		} else {
			open = append(open, again)
		}
		for _, c := range append(open, other) {
			_ = c.Close()
		}
		_ = listener.Close()
	}
}
