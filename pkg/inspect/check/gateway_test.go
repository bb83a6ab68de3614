package check

import (
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/inspected"
)

// TestGatewaysAreJudgedByTheirStatus: what a Gateway has is in its status; while nothing is there, only the controller knows
// which address it gave.
func TestGatewaysAreJudgedByTheirStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		held        []netip.Addr
		vips        map[string]string
		differences int
	}{
		"as its status says":           {[]netip.Addr{netip.MustParseAddr("198.18.0.9")}, map[string]string{"198.18.0.9:80": ""}, 0},
		"elsewhere":                    {[]netip.Addr{netip.MustParseAddr("198.18.0.9")}, map[string]string{"198.18.0.7:80": ""}, 2},
		"nothing is said of it so far": {nil, map[string]string{"198.18.0.7:80": ""}, 0},
	} {
		w := inspected.NewWorld(t)
		key := model.GatewayKey{Namespace: "red", Name: "front"}
		w.Objects.Classes["atoll"] = &model.GatewayClass{Name: "atoll", UID: "class"}
		w.Objects.Gateways[key] = &model.Gateway{
			Key: key, UID: "uid", Class: "atoll", Held: test.held,
			Listeners: []model.Listener{{Name: "web", Protocol: model.TCP, Asked: "TCP", Port: 80}},
		}
		w.Write(3)
		// They were there already.
		w.Interfaces = w.Interfaces[:len(w.Interfaces)/2]
		inspected.Find[*nb.LoadBalancer](w, "red/red/front:gateway:tcp").Vips = test.vips
		if got := lookAt(w).Differences; len(got) != test.differences {
			t.Errorf("%s: %d differences, want %d: %+v", name, len(got), test.differences, got)
		}
	}
}
