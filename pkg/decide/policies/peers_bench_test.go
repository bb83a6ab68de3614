package policies_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
)

// BenchmarkPeersThatSelectAll: one policy with peers that each select 1,000 pods, in memory and in time.
func BenchmarkPeersThatSelectAll(b *testing.B) {
	for _, peers := range []int{256, 1024} {
		b.Run(fmt.Sprintf("%dpeers", peers), func(b *testing.B) {
			x := newBench(b)
			for i := range 1000 {
				x.attach(fmt.Sprintf("p%d", i), fmt.Sprintf("10.0.%d.%d", i/250, 2+i%250), map[string]string{"app": "db"})
			}
			x.Decide(nil)
			p := isolated("db", "web")
			for i := range peers {
				absent := match.Pods{Namespaces: match.Selector{Requirements: []match.Requirement{{Key: fmt.Sprint("k", i), Op: match.DoesNotExist}}}}
				p.Rules[model.PolicyIngress][0].Peers = append(p.Rules[model.PolicyIngress][0].Peers, model.Peer{Pods: &absent})
			}
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
		})
	}
}
