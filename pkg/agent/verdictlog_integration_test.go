//go:build integration

package agent

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/frames"
	"github.com/atoll-net/atoll/test/wait"
)

// logged counts the lines that ovn-controller has written about packets that ACLs of a name judged, with a verdict.
func (j *judged) logged(name, verdict string) int {
	j.tb.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "controller.log"))
	must(j.tb, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "acl_log") && strings.Contains(line, `name="`+name+`", verdict=`+verdict+",") {
			n++
		}
	}
	return n
}

// What isolation drops is logged under the name of a policy that isolates the pod and asks for logs; and all that the policies
// of a namespace log is bounded together.
func TestIsolationIsLoggedAndLogsAreBounded(t *testing.T) {
	j := newJudged(t)
	web, friend, stranger := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "friend", "10.0.0.6", "friend"), j.pod("red", "stranger",
		"10.0.0.7", "stranger")
	own := netip.MustParseAddr("10.0.0.5")
	seen := countArrivals(t, web, 9000, 9009)
	quiet := allowing("red", "quiet", "web", "friend", 9009, 9009)
	j.policy(quiet)
	// Ten rules that log, each of its own policy.
	for port := 9000; port < 9009; port++ {
		p := allowing("red", "p"+string(rune('0'+port-9000)), "web", "friend", uint16(port), uint16(port))
		p.Log = true
		j.policy(p)
	}
	j.nbctl("--wait=hv", "sync")
	arrives(t, friend, own, 9000, seen, "friend")
	arrives(t, friend, own, 9008, seen, "friend")
	lines := func() (all int) {
		for rule := range 9 {
			name := "red/p" + string(rune('0'+rule)) + ":Ingress:"
			all += j.logged(name+"0", "allow") + j.logged(name+"isolation", "drop")
		}
		return all
	}
	before, began := lines(), time.Now()
	_, stopDropped := flood(t, stranger, own, 9000, 9008, "stranger")
	_, stopAllowed := flood(t, friend, own, 9000, 9008, "friend")
	drops := func() (all int) {
		for rule := range 9 {
			all += j.logged("red/p"+string(rune('0'+rule))+":Ingress:isolation", "drop")
		}
		return all
	}
	await(t, func() *bool {
		if drops() > 5 && lines() > before+60 {
			return new(bool)
		}
		return nil
	})
	stopDropped()
	stopAllowed()
	// Ten a second, and what the meter lets through at once in the beginning. Were it ten for each rule, they would come in less
	// than a second.
	got, most := lines()-before, int(time.Since(began).Seconds()*10)+30
	t.Logf("%d lines in %s, %d of them of what isolation dropped", got, time.Since(began), drops())
	if got > most {
		t.Errorf("%d lines in %s, at most %d are to be", got, time.Since(began), most)
	}
	if n := j.logged("red/quiet:Ingress:0", "allow") + j.logged("red/quiet:Ingress:isolation", "drop"); n > 0 {
		t.Errorf("%d lines of a policy that does not log", n)
	}
}

// TestLogsDoNotStopTheSwitch: a pod whose packets are all logged asks its router what Open vSwitch answers itself, by frames to
// all and to groups too. The meter of logs comes before the answer then; one that bounded the packets themselves would leave
// ovs-vswitchd in an endless loop (docs/design/networks.md).
func TestLogsDoNotStopTheSwitch(t *testing.T) {
	j := newJudged(t)
	web, other, third := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "other", "10.0.0.6", "other"), j.pod("red", "third", "10.0.0.7",
		"third")
	logs := allowing("red", "logs", "web", "", 1, 65535)
	logs.Log, logs.Isolates = true, [2]bool{false, true}
	logs.Rules = [2][]model.Rule{model.PolicyEgress: {{Verdict: model.Allow, AnyPeer: true, AnyPort: true}}}
	j.policy(logs)
	j.nbctl("--wait=hv", "sync")
	router, err := net.ParseMAC("0a:58:00:00:00:01")
	must(t, err)
	own := web.end()
	// An identifier, a number and a text.
	echo := frames.ICMP(8, "\x00\x07\x00\x01logged")
	binary.BigEndian.PutUint16(echo[2:], frames.Checksum(echo))
	ping := func(to net.HardwareAddr) []byte {
		return frames.V4{
			From: own.MAC, To: to, Source: own.V4, Target: netip.MustParseAddr("10.0.0.1"), Protocol: unix.IPPROTO_ICMP, Payload: echo,
		}.Bytes()
	}
	var answers net.PacketConn
	var groups *net.IPConn
	must(t, web.inside(func() (err error) {
		if answers, err = net.ListenPacket("ip4:icmp", "0.0.0.0"); err != nil {
			return err
		}
		group, err := net.ListenIP("ip6:ipv6-icmp", &net.IPAddr{IP: own.V6.AsSlice()})
		groups = group
		return err
	}))
	defer answers.Close()
	defer groups.Close()
	raw, err := groups.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		must(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255))
	}))
	solicitation := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, netip.MustParseAddr("fd00:10::1").AsSlice()...)
	solicitation = append(append(solicitation, 1, 1), own.MAC...)
	answered := func() (count int) {
		buffer := make([]byte, 1500)
		for {
			stop := wait.Limit(answers, 300*time.Millisecond)
			n, _, err := answers.ReadFrom(buffer)
			stop()
			if err != nil {
				return count
			}
			if n > 0 && buffer[0] == 0 && strings.HasSuffix(string(buffer[:n]), "logged") {
				count++
			}
		}
	}
	got := 0
	for range 10 {
		web.sendAll([][]byte{
			ping(router), ping(frames.Everybody()), frames.GratuitousARP(own.MAC, own.V4), question(frames.Everybody(), own, "logged"),
		})
		for group, message := range map[string][]byte{
			"ff02::1": {128, 0, 0, 0, 0, 7, 0, 1}, "ff02::2": {128, 0, 0, 0, 0, 7, 0, 1}, "ff02::1:ff00:1": solicitation,
		} {
			_, err := groups.WriteToIP(message, &net.IPAddr{IP: net.ParseIP(group), Zone: "eth0"})
			must(t, err)
		}
		got += answered()
	}
	lines := j.logged("red/logs:Egress:0", "allow")
	t.Logf("%d answers of the router, %d lines", got, lines)
	if got == 0 || lines == 0 {
		t.Error("this test shows nothing")
	}
	must(t, talk(t, other, third))
	j.nbctl("--wait=hv", "sync")
	must(t, talk(t, web, j.pod("red", "fourth", "10.0.0.8", "other")))
}
