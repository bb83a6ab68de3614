package compatible

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
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

// crowd are Networks of one tenant that are all compatible, with as many ranges as a Network may have, no two alike.
func crowd(count int, way string) []*model.Network {
	all := make([]*model.Network, count)
	for i := range all {
		m := network(fmt.Sprintf("t/n%03d", i), "*", "")
		if m.CompatibleWith[0].Addresses = way == "addresses"; way == "Routed" {
			m.CompatibleWith[0].Mode = model.Routed
		}
		for j := range 64 {
			at := i*64 + j
			m.Subnets = append(m.Subnets, model.Subnet{
				Name: fmt.Sprintf("s%d", j), CIDRs: prefixes(fmt.Sprintf("10.%d.%d.%d/28", at>>12, at>>4&255, at&15<<4),
					fmt.Sprintf("fd00:1:%x::/64", at)),
			})
		}
		all[i] = m
	}
	return all
}

// BenchmarkCrowd is what large Networks that are all compatible cost: one that changes its ranges, one that changes something else, and
// all of them when a program starts.
func BenchmarkCrowd(b *testing.B) {
	for _, way := range []string{"addresses", "Routed"} {
		for _, count := range []int{30, 64} {
			all := crowd(count, way)
			load := func() *Networks {
				n := New(testSettings())
				for _, m := range all {
					n.Set(m.Name, m)
				}
				return n
			}
			b.Run(fmt.Sprintf("%s/%d/load", way, count), func(b *testing.B) {
				for b.Loop() {
					load()
				}
			})
			n := load()
			b.Run(fmt.Sprintf("%s/%d/ranges", way, count), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					m := *all[i/2%count]
					if i%2 == 0 {
						m.Subnets = m.Subnets[1:]
					}
					n.Set(m.Name, &m)
				}
			})
			b.Run(fmt.Sprintf("%s/%d/else", way, count), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					m := *all[i%count]
					m.Egress, m.Generation = model.Egress(fmt.Sprint(i%2)), int64(i)
					n.Set(m.Name, &m)
				}
			})
		}
	}
}
