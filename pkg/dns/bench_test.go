package dns

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkAnswer is the way from a packet to a packet, for a small Service and for one of a thousand endpoints.
func BenchmarkAnswer(b *testing.B) {
	w := twoNetworks(b)
	w.SetService(headless("red/big"))
	w.put("big", slice("red/big", "red", manyEndpoints(1000)...))
	for _, name := range []string{
		"web.red.svc.cluster.local.", "nothing.red.svc.cluster.local.", "big.red.svc.cluster.local.", "host-500.big.red.svc.cluster.local.",
	} {
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		m.SetEdns0(1232, false)
		packet, err := m.Pack()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.raw(b, "red", packet, false)
			}
		})
	}
}

// BenchmarkEndpoint is one endpoint's change, in a slice of a hundred, among so many of its Service.
func BenchmarkEndpoint(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, vpc("red"))
			w.SetNamespace(namespaceIn("red", "red"))
			w.SetService(headless("red/big"))
			all := manyEndpoints(n)
			for i := 0; i < n; i += 100 {
				w.put(fmt.Sprint("big-", i), slice("red/big", "red", all[i:min(n, i+100)]...))
			}
			one, other := slice("red/big", "red", all[:min(n, 100)]...), slice("red/big", "red", all[1:min(n, 100)]...)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.put("big-0", []*Slice{one, other}[i%2])
			}
		})
	}
}

func manyEndpoints(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("host-%d=10.1.%d.%d", i, i/250, i%250+1))
	}
	return out
}
