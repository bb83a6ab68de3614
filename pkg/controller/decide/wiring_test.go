package decide_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

var update = flag.Bool("update", false, "write the picture of who hears whom anew")

// wire is one topic: the stage that tells by it, and the places of the stages that hear it.
type wire struct {
	name  string
	stage int
	heard []int
}

// TestTheWiringIsDrawn compares the picture in engine.md with what NewState has wired. It reads the topics that the parts of a
// State have, and does not run a pass.
func TestTheWiringIsDrawn(t *testing.T) {
	t.Parallel()
	state := reflect.ValueOf(decide.NewState(defaults, graph.New(), decide.Discard{})).Elem()
	names := stageNames(state.FieldByName("order"))
	wires := wiresOf(state)
	for _, w := range wires {
		if len(w.heard) == 0 {
			t.Errorf("nobody hears %s", w.name)
		}
	}
	const path, begin, end = "../../../docs/design/engine.md", "<!-- wiring -->\n", "<!-- /wiring -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	held, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("engine.md has no place for the picture")
	}
	drawn := draw(names, wires)
	if held == drawn {
		return
	}
	if !*update {
		t.Fatal("the picture in engine.md is out of date: go test ./pkg/controller/decide -run TestTheWiringIsDrawn -update")
	}
	if err := os.WriteFile(path, []byte(before+begin+drawn+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stageNames are the stages of an Order, in their order.
func stageNames(order reflect.Value) []string {
	list := order.Elem().FieldByName("names")
	names := make([]string, list.Len())
	for i := range names {
		names[i] = list.Index(i).String()
	}
	return names
}

// wiresOf finds the topics of a State. A topic is called after the field of the State whose part has it. Parts that have another
// part's topic, too, come later than that one, or deeper: what is nearest to the State is looked at first.
func wiresOf(state reflect.Value) []wire {
	type place struct {
		part  string
		value reflect.Value
	}
	var wires []wire
	var level []place
	for i := range state.NumField() {
		level = append(level, place{state.Type().Field(i).Name, state.Field(i)})
	}
	seen := map[uintptr]bool{}
	for len(level) > 0 {
		var deeper []place
		for _, at := range level {
			v := at.value
			if v.Kind() == reflect.Pointer {
				if v.IsNil() || seen[v.Pointer()] {
					continue
				}
				seen[v.Pointer()] = true
				v = v.Elem()
			}
			if v.Kind() != reflect.Struct || !strings.Contains(v.Type().PkgPath(), "controller/decide") {
				continue
			}
			for i := range v.NumField() {
				field, f := v.Type().Field(i), v.Field(i)
				if !isTopic(f) {
					deeper = append(deeper, place{at.part, f})
				} else if !seen[f.Pointer()] {
					seen[f.Pointer()] = true
					wires = append(wires, wireOf(at.part+"."+field.Name, f.Elem()))
				}
			}
		}
		level = deeper
	}
	return wires
}

func isTopic(v reflect.Value) bool {
	return v.Kind() == reflect.Pointer && !v.IsNil() && strings.HasPrefix(v.Type().Elem().Name(), "Topic[")
}

func wireOf(name string, topic reflect.Value) wire {
	w := wire{name: name, stage: placeOf(topic)}
	followers := topic.FieldByName("followers")
	for i := range followers.Len() {
		w.heard = append(w.heard, placeOf(followers.Index(i)))
	}
	slices.Sort(w.heard)
	w.heard = slices.Compact(w.heard)
	return w
}

// placeOf is the place in the order of what has a stage.
func placeOf(v reflect.Value) int { return int(v.FieldByName("stage").FieldByName("place").Int()) }

// draw draws a line for each topic, by the stages that tell.
func draw(names []string, wires []wire) string {
	slices.SortStableFunc(wires, func(a, b wire) int { return a.stage - b.stage })
	var out strings.Builder
	fmt.Fprintf(&out, "```\n%-12s %-33s %s\n", "stage", "topic", "heard by")
	last := -1
	for _, w := range wires {
		stage := ""
		if w.stage != last {
			stage, last = names[w.stage], w.stage
		}
		heard := make([]string, len(w.heard))
		for i, place := range w.heard {
			heard[i] = names[place]
		}
		fmt.Fprintf(&out, "%-12s %-33s %s\n", stage, w.name, strings.Join(heard, ", "))
	}
	out.WriteString("```\n")
	return out.String()
}
