package snapshot

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// TestBoundOn: a chassis is of the node that its name is; what it says of its host counts only if its name is no node's.
func TestBoundOn(t *testing.T) {
	nodes := map[string]*model.Node{"n1": {}, "n2": {}}
	for _, c := range []struct {
		on   ovsdb.Binding
		want bool
	}{
		{ovsdb.Binding{Chassis: "n1", Hostname: "n1"}, true},
		{ovsdb.Binding{Chassis: "n1", Hostname: "n2"}, true},
		{ovsdb.Binding{Chassis: "c-17", Hostname: "n1"}, true},
		{ovsdb.Binding{Chassis: "n2", Hostname: "n1"}, false},
		{ovsdb.Binding{}, false},
	} {
		if got := BoundOn(c.on, "n1", nodes); got != c.want {
			t.Errorf("%+v is on n1: %v, want %v", c.on, got, c.want)
		}
	}
}
