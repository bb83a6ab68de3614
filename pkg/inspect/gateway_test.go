package inspect

import (
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
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
		w := newWorld(t)
		key := model.GatewayKey{Namespace: "red", Name: "front"}
		w.objects.Classes["atoll"] = &model.GatewayClass{Name: "atoll", UID: "class"}
		w.objects.Gateways[key] = &model.Gateway{
			Key: key, UID: "uid", Class: "atoll", Held: test.held,
			Listeners: []model.Listener{{Name: "web", Protocol: model.TCP, Asked: "TCP", Port: 80}},
		}
		w.write(3)
		// They were there already.
		w.interfaces = w.interfaces[:len(w.interfaces)/2]
		find[*nb.LoadBalancer](w, "red/red/front:gateway:tcp").Vips = test.vips
		if got := w.look().Differences; len(got) != test.differences {
			t.Errorf("%s: %d differences, want %d: %+v", name, len(got), test.differences, got)
		}
	}
}
