//go:build integration

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/wait"
)

// Pods of several Networks come and go at the same time, with sweeps between: nobody is lost, and nothing is left.
func TestManyGuestsAtOnce(t *testing.T) {
	n := newNode(t)
	n.playController()
	n.playRouters()
	a := n.agent()
	const networks, pods = 4, 5
	var all []*model.Network
	for i := range networks {
		all = append(all, vpc(fmt.Sprintf("net%d", i)))
	}
	a.seesCluster(nil, []*model.Node{givenTo(testNode, 1)}, all...)
	must(t, a.sweep(t.Context()))
	t.Cleanup(func() { n.clearPortholes(a) })
	before := n.ours()
	var work sync.WaitGroup
	var kept []*testPod
	var came []string
	for i := range networks {
		for j := range pods {
			p := newGuest(t, a, all[i].Name, fmt.Sprintf("p%d", j), 10+j, 10+i*pods+j)
			came = append(came, p.request.ContainerID)
			// The first Network keeps a pod, the others come and go several times.
			stays := i == 0 && j == 0
			if stays {
				kept = append(kept, p)
			}
			work.Go(func() {
				for range 3 {
					if _, err := a.Add(t.Context(), p.request); err != nil {
						t.Error(err)
						return
					}
					if stays {
						return
					}
					if err := a.Del(t.Context(), p.request); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { // ends with the work
		defer close(done)
		work.Wait()
	}()
	// An agent sweeps in one place, while it answers in many.
	sweeps := 0
	for ended := false; !ended; sweeps++ {
		if err := a.sweep(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	t.Logf("%d sweeps", sweeps)
	must(t, a.Check(t.Context(), kept[0].request))
	doors := a.portholes.Pods(uidOf("net0"))
	if len(doors) != 2 || doors[0].Own != kept[0].nic.Addresses[0].Addr() {
		t.Errorf("guests %v", doors)
	}
	must(t, a.Del(t.Context(), kept[0].request))
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
	// No turn is held: another pod of each Network comes and goes, and so does each container.
	ctx := wait.Context(t, 30*time.Second)
	for i, network := range all {
		p := newGuest(t, a, network.Name, "late", 50, 50+i)
		_, err := a.Add(ctx, p.request)
		must(t, errors.Join(err, a.Del(ctx, p.request)))
	}
	a.wantFree(t, came...)
}

// A pod that goes while a sweep goes through the links is not brought back by it: its face may be another's a moment later.
func TestSweepDoesNotBringBackWhoHasGone(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	n.addGuest(a, "red", "one", 5, 5)
	p := n.addGuest(a, "red", "two", 6, 6)
	links, err := netdev.List()
	must(t, err)
	must(t, a.Del(t.Context(), p.request))
	must(t, a.portholes.Sweep(t.Context(), links))
	if doors := a.portholes.Pods(uidOf("red")); len(doors) != 2 {
		t.Errorf("guests are %v, and one of two pods has gone", doors)
	}
}

// An ADD that is cut off takes the porthole along that it made.
func TestAddThatIsCutOffClosesThePorthole(t *testing.T) {
	n := newNode(t)
	a := n.agent() // Nobody plays ovn-controller: ADD waits for it.
	a.seesCluster(nil, []*model.Node{givenTo(testNode, 1)}, vpc("red"))
	must(t, a.sweep(t.Context()))
	t.Cleanup(func() { n.clearPortholes(a) })
	before := n.ours()
	p := newGuest(t, a, "red", "one", 5, 5)
	ctx, cancel := context.WithCancel(t.Context())
	woken, stop := a.ovs.Watch(p.hostName())
	defer stop()
	failed := make(chan error)
	go func() {
		_, err := a.Add(ctx, p.request)
		failed <- err
	}()
	<-woken
	cancel()
	if err := <-failed; err == nil {
		t.Error("ADD says that all is well")
	}
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
}

// More than fits into a packet, both ways, where packets are cut up and checksums filled in by several.
func TestLargeTransfers(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red := n.addGuest(a, "red", "one", 5, 5)
	n.addService(world.nodeV4, red.nic.Faces[0].String())
	for _, inside := range []func(func() error) error{red.inside, world.inside} {
		serveEcho(t, inside)
	}
	for name, test := range map[string]struct {
		from    func(func() error) error
		address string
	}{
		"the node to a face":           {here, red.nic.Faces[0].String()},
		"the node to a face, by IPv6":  {here, red.nic.Faces[1].String()},
		"the outside to a Service":     {world.inside, world.nodeV4},
		"a pod to the outside":         {red.inside, world.v4},
		"a pod to the outside by IPv6": {red.inside, world.v6},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, test.from(func() error {
				conn, err := net.DialTimeout("tcp", net.JoinHostPort(test.address, "80"), 3*time.Second)
				if err != nil {
					return err
				}
				defer conn.Close()
				return transfer(conn)
			}))
		})
	}
}

// transfer sends a MiB to somebody who sends all back.
func transfer(conn net.Conn) error {
	defer wait.Limit(conn, 20*time.Second)()
	sent := bytes.Repeat([]byte("large transfer. "), 64<<10)
	go func() { _, _ = conn.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("other bytes came back")
	}
	return nil
}
