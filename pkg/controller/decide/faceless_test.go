package decide_test

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestAFaceThatComesFreeGoesToWhoWaits: the oldest of those that wait for one, whatever Network they are in, before a newcomer.
func TestAFaceThatComesFreeGoesToWhoWaits(t *testing.T) {
	settings := withFaces("100.64.0.0/29")
	settings.FaceBlock = 2
	w := newWorldOf(settings)
	w.setNamespace("a", nil)
	w.setNetwork(network("red", "s", "10.0.0.0/24"))
	w.setNetwork(network("blue", "s", "10.0.0.0/24"))
	w.setNode(node("n1", 1))
	w.settle()
	first, second := pod("a", "first", "red"), pod("a", "second", "red")
	waits, younger := pod("a", "waits", "blue"), pod("a", "younger", "red")
	for _, p := range []model.Pod{first, second, waits, younger} {
		w.setPod(p)
		w.settle()
	}
	w.wantProblem(t, waits, model.ReasonNoFaces, "all faces of node n1")
	w.wantProblem(t, younger, model.ReasonNoFaces, "all faces of node n1")
	w.deletePod(first.Key)
	late := pod("a", "late", "red")
	w.setPod(late)
	w.settle()
	if a := w.attachment(waits.Key); !w.hasPort(waits) || a == nil || len(a.Faces) != 1 {
		t.Errorf("who waited longest: port %v, %+v", w.hasPort(waits), a)
	}
	if w.hasPort(younger) || w.hasPort(late) {
		t.Error("a younger one came before, or two have one face")
	}
	w.deletePod(second.Key)
	w.settle()
	if !w.hasPort(younger) || w.hasPort(late) {
		t.Errorf("the next face: the older has a port %v, the newcomer %v", w.hasPort(younger), w.hasPort(late))
	}
}
