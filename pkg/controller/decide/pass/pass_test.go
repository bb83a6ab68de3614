package pass_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
)

func TestWhoLookedAtAResultIsMarkedWhenItChanges(t *testing.T) {
	t.Parallel()
	order := pass.NewOrder("networks", "services")
	changed := pass.NewTopic[string](order.Stage("networks"))
	queue := pass.NewQueue[int](order.Stage("services"))
	reads := pass.NewReads(queue, changed)
	reads.Note(1, "red")
	reads.Note(2, "red")
	reads.Note(2, "blue")
	reads.Note(2, "blue")
	var took [][]int
	run := func(names ...string) {
		order.Run(map[string]func(){
			"networks": func() {
				for _, name := range names {
					changed.Changed(name)
				}
			},
			"services": func() {
				var keys []int
				for key := range queue.Take() {
					keys = append(keys, key)
				}
				slices.Sort(keys)
				took = append(took, keys)
			},
		})
	}
	run("red")
	run("blue", "green")
	reads.Forget(2)
	run("red", "blue")
	if diff := cmp.Diff([][]int{{1, 2}, {2}, {1}}, took); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if wrong := order.Mistakes(); len(wrong) != 0 {
		t.Error(wrong)
	}
	if len(reads.Readers("blue")) != 0 || len(reads.Of(2)) != 0 {
		t.Error("somebody who was forgotten is still known")
	}
}

func TestMarksOfAStageThatHasRunAreTold(t *testing.T) {
	t.Parallel()
	order := pass.NewOrder("first", "second")
	queue := pass.NewQueue[int](order.Stage("first"))
	queue.Mark(0)
	steps := map[string]func(){"first": func() { queue.Take(); queue.Mark(1) }, "second": func() { queue.Mark(2) }}
	order.Run(steps)
	if diff := cmp.Diff([]string{"stage second marks work of first, which has run"}, order.Mistakes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if queue.Len() != 2 {
		t.Errorf("%d keys wait for the next pass, want 2: nothing is lost", queue.Len())
	}
}

func TestResultsOfALaterStageCannotBeRead(t *testing.T) {
	t.Parallel()
	order := pass.NewOrder("first", "second")
	pass.NewReads(pass.NewQueue[int](order.Stage("first")), pass.NewTopic[int](order.Stage("second")))
	if diff := cmp.Diff([]string{"stage first follows results of second, which runs later"}, order.Mistakes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStagesAreDeclared(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a stage that is not declared was found")
		}
	}()
	pass.NewOrder("first").Stage("second")
}
