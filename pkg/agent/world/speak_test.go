package world

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Of many nodes, three speak.
func TestAFewNodesSpeak(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2, 3, 4, 100} {
		speaking := 0
		for self := range nodes {
			w := New(fmt.Sprintf("n%d", self))
			for i := range nodes {
				w.SetNode(&model.Node{Name: fmt.Sprintf("n%d", i)})
			}
			if w.Speaks() {
				speaking++
			}
		}
		if speaking != min(nodes, speakers) {
			t.Errorf("of %d nodes, %d speak", nodes, speaking)
		}
	}
	if New("n1").Speaks() {
		t.Error("a node speaks that does not know itself yet")
	}
}
