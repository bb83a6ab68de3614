//go:build integration

package decide_test

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// While the endpoints of a Service change again and again, all of them serving, no client waits for a connection: Open vSwitch
// has the group of those before until it leads by the new one.
func TestNewConnectionsWhileEndpointsChangeWithPackets(t *testing.T) {
	const clients, changes = 4, 24
	s := newStage(t)
	client := s.pod("r", "client")
	for _, name := range []string{"one", "two", "three"} {
		s.serve(s.pod("r", name), 8080, name)
	}
	s.setService(dualService("r", "web"))
	s.behind("r", "web", false, "one", "two")
	s.leads("red", "r/web", "tcp", vip4, s.at("one"), s.at("two"))
	before := s.group("one", "two")
	s.behind("r", "web", false, "two", "three")
	s.leads("red", "r/web", "tcp", vip4, s.at("two"), s.at("three"))
	if now := s.group("one", "two"); now == "" || now != before {
		t.Errorf("Open vSwitch had group %q of the endpoints before, and has %q", before, now)
	}

	ended := make(chan struct{})
	var asking sync.WaitGroup
	var mu sync.Mutex
	asked, again := 0, 0
	for range clients {
		asking.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				conn, err := dial(t, client, "tcp", vip4)
				if err != nil {
					t.Errorf("a new connection: %v", err)
					return
				}
				repeated := repeatedSYN(t, conn)
				_ = conn.Close()
				mu.Lock()
				asked++
				if repeated {
					again++
				}
				mu.Unlock()
			}
		})
	}
	for i := range changes {
		names := []string{"one", "two"}
		if i%2 == 1 {
			names = []string{"two", "three"}
		}
		s.behind("r", "web", false, names...)
		s.leads("red", "r/web", "tcp", vip4, s.at(names[0]), s.at(names[1]))
	}
	close(ended)
	asking.Wait()
	t.Logf("%d connections, %d repeated their SYN", asked, again)
	// With no old groups each client is stuck sooner or later; on a machine that stands still for 1 s, some are all the same.
	if again >= clients || asked < changes {
		t.Errorf("%d of %d connections repeated their SYN while endpoints changed %d times", again, asked, changes)
	}
	eventually(t, "", func() string { return s.group("one", "two") })
}

// group is the id of the group by which Open vSwitch divides among exactly these endpoints of red; empty when it has none.
func (s *stage) group(names ...string) string {
	s.t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, s.at(name).String())
	}
	groups, err := s.chassis.OFCtl(s.t.Context(), "-O", "OpenFlow15", "dump-groups", "br-int")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(groups) {
		var got []string
		for _, target := range groupTarget.FindAllStringSubmatch(line, -1) {
			got = append(got, target[1])
		}
		if id := groupID.FindStringSubmatch(line); id != nil && slices.Equal(got, want) {
			return id[1]
		}
	}
	return ""
}

// What ovs-ofctl prints of a group: its id, and where each of its buckets leads.
var (
	groupID     = regexp.MustCompile(`group_id=(\d+),`)
	groupTarget = regexp.MustCompile(`nat\(dst=([^)]+)\)`)
)

// repeatedSYN reports whether a connection came about only after its first packet had been sent again.
func repeatedSYN(t *testing.T, c talk) bool {
	t.Helper()
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return false
	}
	var info *unix.TCPInfo
	var infoErr error
	if err := raw.Control(func(fd uintptr) {
		info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil || infoErr != nil {
		t.Error(err, infoErr)
		return false
	}
	return info.Total_retrans > 0
}
