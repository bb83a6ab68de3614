package compatible

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/model"
)

// BenchmarkMutual changes one of Networks that are all compatible with each other, by face, joined as far as that
// goes, or by face with own addresses.
func BenchmarkMutual(b *testing.B) {
	for _, way := range []string{"ByFace", "Routed", "addresses"} {
		for _, count := range []int{32, 64, 128, 256} {
			b.Run(fmt.Sprintf("%s/%d", way, count), func(b *testing.B) {
				n := New(testSettings())
				all := make([]*model.Network, count)
				for i := range all {
					m := network(fmt.Sprintf("t/n%03d", i), "*", "")
					if m.CompatibleWith[0].Addresses = way == "addresses"; way == "Routed" {
						m.CompatibleWith[0].Mode = model.Routed
					}
					m.Subnets = []model.Subnet{{Name: "a", CIDRs: prefixes(fmt.Sprintf("10.%d.0.0/24", i))}}
					m.ServiceCIDRs = prefixes(fmt.Sprintf("10.%d.1.0/24", i))
					all[i] = m
					n.Set(m.Name, m)
				}
				b.ResetTimer()
				for i := 0; b.Loop(); i++ {
					m := *all[i%count]
					m.CompatibleWith = nil
					n.Set(m.Name, &m)
					n.Set(m.Name, all[i%count])
				}
			})
		}
	}
}
