package check

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/inspected"
)

func TestCheckGolden(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*inspected.World){
		"none": func(*inspected.World) {},
		"refused": func(w *inspected.World) {
			w.AddPod("blue", "stray", "n2").Network = "nowhere"
		},
		"unbound": func(w *inspected.World) { w.Bindings["blue/web-1"] = ovsdb.Binding{} },
		"all":     damageEverything,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inspected.NewWorld(t)
			damage(w)
			inspected.Golden(t, name, lookAt(w))
		})
	}
}

// damageEverything breaks something at each place.
func damageEverything(w *inspected.World) {
	w.AddPod("red", "new", "n2")
	w.Statuses["red"] = kube.Shown{ObservedGeneration: 1, Phase: model.Ready, Pods: 3}
	w.Delete(inspected.Find[*nb.LogicalSwitchPort](w, "red/web-1"))
	port := inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0")
	port.PortSecurity = nil
	port.Options["requested-chassis"] = "n7"
	router := inspected.Find[*nb.LogicalRouter](w, "blue")
	router.Ports = inspected.Without(router.Ports, inspected.Find[*nb.LogicalRouterPort](w, "blue/back:gateway").UUID)
	stray := &nb.LogicalSwitch{
		UUID: "stray", Name: "stray", ExternalIDs: map[string]string{nb.KeyOwner: "Network/gone\x1b[2J"},
	}
	w.Rows[nb.RefOf(stray)] = stray
	w.Bindings["blue/web-1"] = ovsdb.Binding{Chassis: "n1", Hostname: "n1", Up: true}
	w.Iface("blue/web-0").Problem = strings.Repeat("could not open network device ", 4)
}
