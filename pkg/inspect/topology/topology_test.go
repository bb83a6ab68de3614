package topology

import (
	"testing"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/inspected"
)

func TestTopologyGolden(t *testing.T) {
	t.Parallel()
	w := inspected.NewAddressWorld(t)
	w.AddFlat("default", 1, "10.128.0.0/14")
	w.Statuses["default"] = w.Statuses["red"]
	w.Tell["default"] = func(s *atoll.NetworkStatus) {
		s.Subnets, s.Pods = []atoll.SubnetStatus{
			{Name: "all", CIDR: "10.128.0.0/14", Gateway: "10.128.0.1"}, {Name: "all", CIDR: "fd00:1::/64", Gateway: "fd00:1::1"},
		}, 0
	}
	w.Tell["blue"] = func(s *atoll.NetworkStatus) {
		s.Compatibility = []atoll.CompatibilityStatus{
			{Network: "red", Direction: atoll.CompatibilityUses, Mode: "ByFace", State: "Active"}, {
				Network: "shared", Direction: atoll.CompatibilityUses, Mode: "Routed", State: "Waiting",
				Message: `Network "shared" does not exist, or is not compatible with it`,
			},
		}
	}
	inspected.GoldenValue(t, "topologies-three", api.TopologyList{TypeMeta: inspected.ListType("TopologyList"), Items: list(w.Known)})
	one, _ := get(w.Known, "red")
	inspected.GoldenValue(t, "topology-red", one)
	if _, there := get(w.Known, "nowhere"); there {
		t.Error("there is no such Network")
	}
}
