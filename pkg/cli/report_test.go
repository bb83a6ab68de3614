package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/pkg/ovsdb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden prints reports as people and programs get them.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*world){
		"none": func(*world) {},
		"refused": func(w *world) {
			w.addPod("blue", "stray", "n2").Network = "nowhere"
		},
		"unbound": func(w *world) { w.bindings["blue/web-1"] = ovsdb.Binding{} },
		"all":     damageEverything,
	} {
		for _, format := range []string{formatTable, formatJSON} {
			t.Run(name+"."+format, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				damage(w)
				var got bytes.Buffer
				if err := w.look().Print(&got, format); err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", name+"."+format), got.String())
			})
		}
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", file, diff)
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

func TestALongTableIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	var r Report
	for i := range maxLines + 7 {
		r.Differences = append(r.Differences, Difference{Owner: nb.Owner(fmt.Sprint("Pod/a/", i)), Place: PlaceNorthbound, Kind: RowMissing})
	}
	var out bytes.Buffer
	if err := r.Print(&out, formatTable); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := lines[len(lines)-3], "and 7 more (-o json has all)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.HasPrefix(lines[len(lines)-1], "107 differences in ") {
		t.Errorf("the last line is no verdict: %q", lines[len(lines)-1])
	}
}
