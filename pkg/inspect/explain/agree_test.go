package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/test/inspected"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

func explainable(w *inspected.World) *World {
	return makeWorld(w.Rows, w.Objects, inspected.Explained(), nil)
}

// outcome is whom an explanation says that a packet reaches, and whether it may reach others whom it does not get to.
func outcome(e Explanation) (reached []string, open bool) {
	for _, way := range e.Ways {
		if way.Reached && !slices.Contains(reached, way.To) {
			reached = append(reached, way.To)
		}
	}
	slices.Sort(reached)
	return reached, len(reached) > 0 && !e.Reached
}

// TestExplainAgreesWithTheOracle: of each path of random scenes, with Networks of both modes, Services with endpoints in several
// of them and policies across, an explanation says the same as an oracle that knows the objects alone and shares nothing with the
// product.
func TestExplainAgreesWithTheOracle(t *testing.T) {
	t.Parallel()
	const seeds = 3
	paths, across := 0, map[random.Way]int{}
	for seed := range uint64(seeds) {
		w, known := inspected.BetweenWorld(t, between.Draw(seed, []string{"n1", "n2", "n3"}))
		all := known.Paths()
		wrong := disagreements(t, explainable(w), known, all)
		paths += len(all)
		for way, n := range known.Across(all) {
			across[way] += n
		}
		if len(wrong) > 0 {
			t.Fatalf("seed %d: %d of %d paths are explained wrong:\n%s", seed, len(wrong), len(all), strings.Join(wrong[:min(len(wrong), 8)], "\n"))
		}
	}
	t.Logf("%d paths, into other Networks %v", paths, across)
	if paths < 1000*seeds || len(across) < 3 {
		t.Error("that is too few to be worth asking")
	}
}

// TestExplainDisagreesWhereRowsDiffer is the control: rows of a scene, and the oracle of the scene as it is after a change.
func TestExplainDisagreesWhereRowsDiffer(t *testing.T) {
	t.Parallel()
	scene := between.Draw(1, []string{"n1", "n2", "n3"})
	w, known := inspected.BetweenWorld(t, scene)
	for i, n := range scene.Change(1).Networks {
		known.Networks[i].Network = n
	}
	if wrong := disagreements(t, explainable(w), known, known.Paths()); len(wrong) == 0 {
		t.Error("explanations of the rows before a change agree with what is so after it")
	}
}

// disagreements are the paths of which an explanation says something else than the oracle.
func disagreements(t *testing.T, w *World, known between.World, paths []random.Path) (wrong []string) {
	t.Helper()
	placed := known.Placed()
	for _, p := range paths {
		from := placed[p.From]
		got, err := Explain(w, question.Question{
			From: question.End{Pod: model.PodKey{Namespace: from.Namespace, Name: from.Name}}, To: question.End{Address: p.Address},
			Protocol: model.Protocol(p.Protocol), Port: wire.DefaultPort,
		})
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", p.String(placed), err))
			continue
		}
		reached, open := outcome(got)
		want := slices.Sorted(slices.Values(p.May))
		if !slices.Equal(reached, want) || open != p.Open {
			wrong = append(wrong,
				fmt.Sprintf("%s: reaches %q (others, too: %t), want %q (%t): %s", p.String(placed), reached, open, want, p.Open, got.Verdict()))
		}
	}
	return wrong
}
