//go:build integration

package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// questions are what a pod asks another one while things happen around them: each from a port of its own, so that each is the
// first packet of a connection.
type questions struct {
	what        string
	asked, lost atomic.Int64
}

// ask asks until end is closed. A question that has no answer while the machine gave so much time is lost, and not only late.
func (q *questions) ask(from *testPod, server string, end <-chan struct{}) error {
	const patience = 3 * time.Second
	for {
		select {
		case <-end:
			return nil
		default:
		}
		var conn net.Conn
		err := from.inside(func() (err error) {
			conn, err = net.Dial("udp", server)
			return err
		})
		if err != nil {
			return err
		}
		q.asked.Add(1)
		if _, err := conn.Write([]byte("question")); err != nil {
			return err
		}
		stop := wait.Limit(conn, patience)
		_, err = conn.Read(make([]byte, 64))
		stop()
		if os.IsTimeout(err) {
			q.lost.Add(1)
		} else if err != nil {
			return err
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
}

// serveUDP sends back what comes to a pod's port 7, until the test ends.
func serveUDP(t *testing.T, p *testPod) string {
	t.Helper()
	var server net.PacketConn
	must(t, p.inside(func() (err error) {
		server, err = net.ListenPacket("udp4", p.address()+":7")
		return err
	}))
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		buffer := make([]byte, 64)
		for {
			n, peer, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buffer[:n], peer)
		}
	}()
	return server.LocalAddr().String()
}

// TestNothingIsLostWhilePodsComeAndGo: pods of a node, and of two nodes, go on beginning connections while others come and go on
// both nodes, and no packet of theirs is lost. Between nodes that holds for the kernel's datapath: docs/design/networks.md ("When
// the userspace datapath loses packets") says why not for the userspace one.
func TestNothingIsLostWhilePodsComeAndGo(t *testing.T) {
	n := newNode(t)
	other := n.neighbour()
	n.startOVN()
	other.joinOVN()
	a, b := n.agent(), other.agent()
	client, beside, there := newPod(t, a, "client", 5), newPod(t, a, "beside", 6), newPod(t, b, "there", 7)
	n.addLogicalPort("red", client)
	n.addLogicalPort("red", beside)
	other.addLogicalPort("red", there)
	for _, p := range []*testPod{client, beside} {
		_, err := a.Add(t.Context(), p.request)
		must(t, err)
	}
	must(t, other.inside(func() error {
		_, err := b.Add(t.Context(), there.request)
		return err
	}))
	// Each node learns of the other's port a moment after its own is installed.
	for try := 0; ; try++ {
		err := errors.Join(talk(t, client, there), talk(t, client, beside))
		if err == nil {
			break
		}
		if t.Logf("pods do not talk yet: %v", err); try == 10 {
			t.FailNow()
		}
	}

	near, far := &questions{what: "on one node"}, &questions{what: "between nodes"}
	end := make(chan struct{})
	var asking sync.WaitGroup
	for _, each := range []struct {
		*questions
		server string
	}{{near, serveUDP(t, beside)}, {far, serveUDP(t, there)}} {
		for range 2 {
			asking.Go(func() {
				if err := each.ask(client, each.server, end); err != nil {
					t.Error(err)
				}
			})
		}
	}
	const comings = 10
	for i := range comings {
		for on, who := range map[*node]*Agent{n: a, other: b} {
			guest := newPod(t, who, fmt.Sprintf("guest-%s-%d", on.name, i), byte(20+i))
			on.addLogicalPort("red", guest)
			must(t, on.inside(func() error {
				_, err := who.Add(t.Context(), guest.request)
				return errors.Join(err, who.Del(t.Context(), guest.request))
			}))
			on.nbctl("lsp-del", guest.request.Pod.Key().String())
		}
	}
	close(end)
	asking.Wait()
	for _, q := range []*questions{near, far} {
		t.Logf("%s: %d connections begun while %d pods came and went, %d first packets lost", q.what, q.asked.Load(), 2*comings, q.lost.Load())
		promised := q == near || n.datapath == ovn.SystemDatapath
		if promised && (q.asked.Load() < 100 || q.lost.Load() > 0) {
			t.Errorf("%s: %d of %d were lost", q.what, q.lost.Load(), q.asked.Load())
		}
	}
}
