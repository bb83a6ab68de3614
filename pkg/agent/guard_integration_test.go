//go:build integration

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/test/frames"
)

// listens returns a socket by which the frames that come to a pod's interface are read.
func (p *testPod) listens() (socket int) {
	p.tb.Helper()
	must(p.tb, p.inside(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, unix.ETH_P_ALL<<8); err != nil {
			return err
		}
		// Who asks late misses nothing.
		if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: link.Attrs().Index})
	}))
	p.tb.Cleanup(func() { _ = unix.Close(socket) })
	return socket
}

// end is a pod's interface as its neighbours know it.
func (p *testPod) end() frames.End {
	p.tb.Helper()
	mac, err := net.ParseMAC(p.nic.MAC)
	must(p.tb, err)
	return frames.End{MAC: mac, V4: p.nic.Addresses[0].Addr(), V6: p.nic.Addresses[1].Addr()}
}

// sendAll sends frames from a pod's interface.
func (p *testPod) sendAll(raw [][]byte) {
	p.tb.Helper()
	for _, frame := range raw {
		p.sendFrame(frame)
	}
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
	came := victim.inbox()
	players := frames.Players{Sender: attacker.end(), Receiver: victim.end()}
	honest, forged := players.Honest(), players.Servers()
	try := func(name string, made func(string) [][]byte, want bool) {
		t.Run(fmt.Sprintf("%s, arrives %t", name, want), func(t *testing.T) {
			text := "marked " + name + "."
			send := func() { attacker.sendAll(made(text)) }
			if want {
				came.wantArrival(t, text, send)
				return
			}
			came.never(t, text, send, func(mark string) { attacker.sendAll(honest["IPv4"](mark)) })
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
		if found := strings.Contains(j.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "unix:"+watch.socket, "table=0"),
			"icmp_type=134"); found {
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
