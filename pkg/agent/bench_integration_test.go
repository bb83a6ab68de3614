//go:build integration

package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// BenchmarkADD measures an ADD with a real kernel and a real ovsdb-server and ovs-vswitchd, up to the moment
// from which it waits for OVN's flows.
func BenchmarkADD(b *testing.B) {
	n := newNode(b)
	a := n.agent()
	var took []time.Duration
	for range b.N {
		b.StopTimer()
		p := newPod(b, a, "pod", 5)
		b.StartTimer()
		started := time.Now()
		watch := a.metrics.watchAdd()
		pod, nic, err := a.pods.await(b.Context(), p.request.Pod, "eth0")
		must(b, err)
		w, err := a.wanted(b.Context(), p.request, pod, nic)
		must(b, err)
		_, err = a.connect(b.Context(), w, watch)
		must(b, err)
		took = append(took, time.Since(started))
		b.StopTimer()
		must(b, a.disconnect(b.Context(), netdev.Owner{ContainerID: p.request.ContainerID, Interface: "eth0"}))
		removeNetns(b, p.request.Netns)
		b.StartTimer()
	}
	slices.Sort(took)
	quantile := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(quantile(0.5), "p50-ms")
	b.ReportMetric(quantile(0.99), "p99-ms")
}
