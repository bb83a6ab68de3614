package nb_test

import (
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// BenchmarkRow is what the mirror does with each row that it is asked for or that changes.
func BenchmarkRow(b *testing.B) {
	row := &nb.LogicalSwitchPort{
		UUID: "u", Name: "namespace/pod", Addresses: []string{"0a:58:0a:00:00:02 10.0.0.2"}, PortSecurity: []string{"0a:58:0a:00:00:02 10.0.0.2"},
		Options:     map[string]string{"requested-chassis": "n1", "iface-id-ver": "uid", "ct-zone-limit": "65536"},
		ExternalIDs: map[string]string{nb.KeyOwner: "Pod/namespace/pod", nb.KeyUID: "uid", nb.KeyNetwork: "red"},
	}
	b.Run("clone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			model.Clone(row)
		}
	})
	other := model.Clone(row)
	b.Run("equal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !model.Equal(row, other) {
				b.Fatal("a row differs from its clone")
			}
		}
	})
	set := nb.Member{Set: nb.Set{Row: nb.RefOf(row), Column: nb.ColumnPorts}, Value: "u"}
	set.Row.Table = nb.TableLogicalSwitch
	b.Run("member", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if set.Ref().Table != nb.TableLogicalSwitchPort || set.IsMap() {
				b.Fatal("a switch's port is none")
			}
		}
	})
}
