package policies_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// BenchmarkPeersThatSelectAll: one policy with peers that each select 1,000 pods of its Network, or of another one, in memory and in time.
func BenchmarkPeersThatSelectAll(b *testing.B) {
	for _, network := range []string{"red", "blue"} {
		for _, peers := range []int{256, 1024} {
			b.Run(fmt.Sprintf("%s/%dpeers", network, peers), func(b *testing.B) { selectAll(b, network, peers) })
		}
	}
}

func selectAll(b *testing.B, network string, peers int) {
	x := newBench(b)
	x.attach("db", "10.0.0.2", map[string]string{"app": "db"})
	for i := range 1000 {
		x.attachTo(network, fmt.Sprintf("p%d", i), fmt.Sprintf("10.0.%d.%d", 1+i/250, 2+i%250), map[string]string{"app": "web"})
	}
	x.Decide(nil)
	p := isolated("db", "web")
	p.Rules[model.PolicyIngress][0].Peers = selectingAll(peers)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		x.decide(p)
		runtime.GC()
		runtime.ReadMemStats(&after)
		x.decide(nil)
		x.Write()
		x.commit()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(1000*peers), "B/pair")
}

// selectingAll are as many peers, each another selector of all pods.
func selectingAll(n int) (out []model.Peer) {
	for i := range n {
		absent := match.Pods{Namespaces: match.Selector{Requirements: []match.Requirement{{Key: fmt.Sprint("k", i), Op: match.DoesNotExist}}}}
		out = append(out, model.Peer{Pods: &absent})
	}
	return out
}
