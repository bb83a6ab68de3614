package decide_test

import (
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// numberOf is what the switch of a subnet asks for; false when there is no such switch.
func (w *world) numberOf(network, name string) (number string, there bool) {
	facts, _ := w.graph.Facts(nb.NetworkOwner(network))
	for _, row := range facts.Rows {
		if sw, ok := row.(*nb.LogicalSwitch); ok && sw.Name == name {
			return sw.OtherConfig[nb.KeyTunnelKey], true
		}
	}
	return "", false
}

// TestNobodyTakesTheNumberOfAnothersSwitch: whoever names a subnet so that its switch would ask for the number of an older Network's. When that has gone, it does ask.
// The control is the name beside it.
func TestNobodyTakesTheNumberOfAnothersSwitch(t *testing.T) {
	const victims, chosen, number = "s2144", "s1252", "3096137"
	victim, thief := network("red", victims, "10.0.0.0/24"), network("blue", chosen, "10.0.0.0/24", "beside", "10.0.1.0/24")
	victim.Created, thief.Created = time.Unix(2, 0), time.Unix(3, 0)
	for name, order := range map[string][]model.Network{"the thief comes later": {victim, thief}, "he comes first": {thief, victim}} {
		w := newWorld()
		for _, n := range order {
			w.setNetwork(n)
			w.settle()
		}
		if got, _ := w.numberOf("red", "red/"+victims); got != number {
			t.Errorf("%s: the older Network's switch asks for %q", name, got)
		}
		if got, there := w.numberOf("blue", "blue/"+chosen); !there || got != "" {
			t.Errorf("%s: the younger one's asks for %q, there %t", name, got, there)
		}
		if got, _ := w.numberOf("blue", "blue/beside"); got == "" {
			t.Errorf("%s: the control asks for nothing", name)
		}
		w.change(func() { delete(w.networks, "red"); w.changes.Networks["red"] = nil })
		w.settle()
		if got, _ := w.numberOf("blue", "blue/"+chosen); got != number {
			t.Errorf("%s: when the older one has gone, the younger one's asks for %q", name, got)
		}
	}
}

// TestTheDefaultNetworkHasItsNumbers: whoever is older.
func TestTheDefaultNetworkHasItsNumbers(t *testing.T) {
	const number = "3096137"
	w := newWorld()
	mine := network(defaults.Network, "s2144", "10.128.0.0/14")
	mine.UID, mine.Type, mine.Created = "uid-red", model.Flat, time.Unix(9, 0)
	thief := network("blue", "s1252", "10.0.0.0/24")
	w.setNetwork(thief)
	w.settle()
	if got, _ := w.numberOf("blue", "blue/s1252"); got != number {
		t.Errorf("the control: alone he asks for %q", got)
	}
	w.setNetwork(mine)
	w.settle()
	if got, _ := w.numberOf(defaults.Network, defaults.Network+"/s2144"); got != number {
		t.Errorf("the default Network's switch asks for %q", got)
	}
	if got, there := w.numberOf("blue", "blue/s1252"); !there || got != "" {
		t.Errorf("the other's asks for %q, there %t", got, there)
	}
}
