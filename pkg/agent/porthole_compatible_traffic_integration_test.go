//go:build integration

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/stream"
)

// span is a part of a stream, by the numbers of its datagrams.
type span struct{ first, end int64 }

// in counts the datagrams that are in the span.
func (s span) in(numbers []int64) (n int64) {
	for _, i := range numbers {
		if i >= s.first && i < s.end {
			n++
		}
	}
	return n
}

// Pairs that come, turn and go, beside others that stay: none is lost of what is allowed before and after a change, and none
// passes of what is allowed neither before nor after it. The pair that changes is on one node, where the node alone judges it. A
// machine that has no time for the switches loses packets by itself: rounds in which it does so between pods of one Network tell
// nothing. And it leaves packets waiting for a switch, to be judged after the next change: before that, all that was sent is
// given the time to pass. Those inside come the fastest, and wait the longest.
func TestPairsUnderTraffic(t *testing.T) {
	p := newPeers(t, []string{"near", "two"}, []string{"far", "one"})
	// A switch keeps as many packets of a port, however fast they come: those inside come as fast as all that open sends by one porthole.
	const (
		openPace, changingPace = time.Millisecond, 3 * time.Millisecond
		closedPace, insidePace = 10 * time.Millisecond, 400 * time.Microsecond
	)
	datapath, err := ovn.Datapath()
	must(t, err)
	// The kernel with that datapath runs on one processor here.
	slower := func(pace time.Duration) time.Duration {
		if datapath == ovn.SystemDatapath {
			return 5 * pace
		}
		return pace
	}
	flow := func(from, to string, port uint16, family int, pace time.Duration) *stream.Stream {
		return stream.New(t, p.pods[from].inside, p.pods[to].inside, netip.AddrPortFrom(p.face(to, family), port), slower(pace))
	}
	var inside []*stream.Stream
	for _, network := range []string{"near", "one"} {
		i := p.home[network]
		var other *testPod
		must(t, p.nodes[i].inside(func() error {
			other = p.nodes[i].addGuest(p.agents[i], network, "other", 6, 50)
			return nil
		}))
		own := netip.AddrPortFrom(p.pods[network].nic.Addresses[0].Addr(), 9000)
		inside = append(inside, stream.New(t, other.inside, p.pods[network].inside, own, slower(insidePace)))
	}
	p.serve("near", "one")
	p.serve("far", "one")
	open := map[string]*stream.Stream{
		"from one to near, on another node":     flow("one", "near", 9001, 0, openPace),
		"from one to far, on its node, by IPv6": flow("one", "far", 9001, 1, openPace),
	}
	closed := map[string]*stream.Stream{
		"from near to one, who uses it": flow("near", "one", 9002, 0, closedPace),
		"from far to near":              flow("far", "near", 9003, 1, closedPace),
		"from two to one":               flow("two", "one", 9004, 0, closedPace),
	}
	type way struct{ from, to string }
	changing := map[way]*stream.Stream{
		{"two", "near"}: flow("two", "near", 9005, 0, changingPace),
		{"near", "two"}: flow("near", "two", 9006, 1, changingPace),
	}
	const rounds, packets = 4, 150
	type round struct {
		open               map[string]span
		inside             []span
		allowed, forbidden map[way][]span
	}
	// The first ones look for their way.
	for _, s := range append(slices.Clone(inside), open["from one to near, on another node"]) {
		must(t, s.Wait(packets))
	}
	var all []round
	for range rounds {
		r := round{open: map[string]span{}, allowed: map[way][]span{}, forbidden: map[way][]span{}}
		for what, s := range open {
			r.open[what] = span{first: s.Sent()}
		}
		for _, s := range inside {
			r.inside = append(r.inside, span{first: s.Sent()})
		}
		for _, state := range []map[string][]string{
			{"near": {"one", "two"}},
			{"near": {"one", "two"}, "two": {"near"}},
			{"near": {"one"}, "two": {"near"}},
			{"near": {"one"}},
		} {
			for _, provider := range []string{"near", "two"} {
				p.serve(provider, state[provider]...)
			}
			begun := map[way]int64{}
			for w, s := range changing {
				begun[w] = s.Sent()
			}
			for _, s := range open {
				must(t, s.Wait(packets))
			}
			for w, s := range changing {
				to := r.forbidden
				if slices.Contains(state[w.to], w.from) {
					to = r.allowed
				}
				to[w] = append(to[w], span{begun[w], s.Sent()})
			}
			for what, s := range open {
				r.open[what] = span{r.open[what].first, s.Sent()}
			}
			for _, s := range inside {
				must(t, s.Drain())
			}
		}
		for i, s := range inside {
			r.inside[i].end = s.Sent()
		}
		all = append(all, r)
	}
	for what, s := range closed {
		if passed := s.Sent() - int64(len(s.End())); passed > 0 {
			t.Errorf("%d of %d packets passed %s", passed, s.Sent(), what)
		}
	}
	lost := map[*stream.Stream][]int64{}
	for _, s := range inside {
		lost[s] = s.End()
	}
	for _, s := range open {
		lost[s] = s.End()
	}
	for _, s := range changing {
		lost[s] = s.End()
	}
	told, always, between, outside := 0, int64(0), int64(0), int64(0)
	for i, r := range all {
		for w, s := range changing {
			for _, part := range r.forbidden[w] {
				outside += part.end - part.first
				if passed := part.end - part.first - part.in(lost[s]); passed > 0 {
					t.Errorf("round %d: %d packets passed from %s to %s after they were forbidden", i, passed, w.from, w.to)
				}
			}
		}
		if n := r.inside[0].in(lost[inside[0]]) + r.inside[1].in(lost[inside[1]]); n > 0 {
			t.Logf("round %d: the machine lost %d packets by itself", i, n)
			continue
		}
		told++
		for what, s := range open {
			always += r.open[what].end - r.open[what].first
			if n := r.open[what].in(lost[s]); n > 0 {
				t.Errorf("round %d: %d packets were lost %s, which is allowed all the while", i, n, what)
			}
		}
		for w, s := range changing {
			for _, part := range r.allowed[w] {
				between += part.end - part.first
				if n := part.in(lost[s]); n > 0 {
					t.Errorf("round %d: %d packets from %s to %s were lost after they were allowed", i, n, w.from, w.to)
				}
			}
		}
	}
	summary := fmt.Sprintf(
		"%d of %d rounds of 4 changes tell something; %d packets allowed all the while, %d while a pair was there, %d while it was not",
		told, rounds, always, between, outside)
	if told < 2 || always < 1000 || between < 300 || outside < 500 {
		t.Error(summary)
	}
	t.Log(summary)
}
