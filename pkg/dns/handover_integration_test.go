//go:build integration

package dns

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/miekg/dns"

	"github.com/atoll-net/atoll/test/wait"
)

// TestDrain: a server whose successor listens beside it may go, and no question is lost, if it is drained. Closed at once it loses some:
// what is in its queues, and connections that are being made.
func TestDrain(t *testing.T) {
	p := newPorthole(t)
	start := func() *Node {
		n, d := newTestNode(t, FixedResolvers(nil))
		d.SetComplete()
		if err := n.Serve(t.Context(), "red", vpc("red"), p.place()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// lost replaces servers under load until enough questions are lost, or turns are over.
	lost := func(turns int, end func(*Node)) (failed int64) {
		var asked, without atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		defer asking.Wait()
		defer stop()
		now := start()
		for _, transport := range []string{"udp", "tcp"} {
			for range 4 {
				asking.Go(func() {
					client := &dns.Client{Net: transport, Timeout: 2 * time.Second}
					for ctx.Err() == nil {
						asked.Add(1)
						if err := p.Do(func(ns.NetNS) error {
							m := new(dns.Msg)
							m.SetQuestion("cluster.local.", dns.TypeSOA)
							_, _, err := client.ExchangeContext(context.WithoutCancel(ctx), m, p.place().Addresses[0].String())
							return err
						}); err != nil {
							without.Add(1)
						}
					}
				})
			}
		}
		for turn := 0; turn < turns && without.Load() == 0; turn++ {
			next := start()
			before := asked.Load()
			wait.Until(t, wait.Patience, "200 more questions", func() bool { return asked.Load() >= before+200 })
			end(now)
			now = next
		}
		stop()
		asking.Wait()
		now.Close()
		t.Logf("%d questions, %d lost", asked.Load(), without.Load())
		return without.Load()
	}
	if failed := lost(10, func(n *Node) { n.Drain(); n.Close() }); failed > 0 {
		t.Errorf("%d questions were lost", failed)
	}
	const patience = 300
	if lost(patience, (*Node).Close) == 0 {
		t.Errorf("control: servers were closed %d times, and nothing was lost", patience)
	}
}
