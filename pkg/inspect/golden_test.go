package inspect

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

var update = flag.Bool("update", false, "write the golden values anew; then let package cli's tests print them")

// golden compares a value with the one that package cli's golden files print: its own tests hold how they print it.
func golden[V interface{ Verdict() string }](t *testing.T, name string, got V) {
	t.Helper()
	file := filepath.Join("..", "cli", "testdata", name+".json")
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want V
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Way{})); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", name, diff)
	}
}

func TestCheckGolden(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*world){
		"none": func(*world) {},
		"refused": func(w *world) {
			w.addPod("blue", "stray", "n2").Network = "nowhere"
		},
		"unbound": func(w *world) { w.bindings["blue/web-1"] = ovsdb.Binding{} },
		"all":     damageEverything,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			damage(w)
			golden(t, name, w.look())
		})
	}
}

// damageEverything breaks something at each place.
func damageEverything(w *world) {
	w.addPod("red", "new", "n2")
	w.shown["red"] = kube.Shown{ObservedGeneration: 1, Phase: model.Ready, Pods: 3}
	w.delete(find[*nb.LogicalSwitchPort](w, "red/web-1"))
	port := find[*nb.LogicalSwitchPort](w, "red/web-0")
	port.PortSecurity = nil
	port.Options["requested-chassis"] = "n7"
	router := find[*nb.LogicalRouter](w, "blue")
	router.Ports = without(router.Ports, find[*nb.LogicalRouterPort](w, "blue/back:gateway").UUID)
	stray := &nb.LogicalSwitch{
		UUID: "stray", Name: "stray", ExternalIDs: map[string]string{nb.KeyOwner: "Network/gone\x1b[2J"},
	}
	w.rows[nb.RefOf(stray)] = stray
	w.bindings["blue/web-1"] = ovsdb.Binding{Chassis: "n1", Hostname: "n1", Up: true}
	w.iface("blue/web-0").Problem = strings.Repeat("could not open network device ", 4)
}
