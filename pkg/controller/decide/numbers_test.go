package decide_test

import (
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
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

// TestNobodyTakesTheNumberOfAnothersSwitch: whoever names a subnet so that its switch would ask for the number of an older
// Network's. When that has gone, it does ask. The control is the name beside it.
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

// TestWhoHasANumberKeepsIt: an older Network gets a subnet whose switch would ask for the number of a younger one's, before its
// status tells of that subnet and after; and renames one that it has had for longer. A controller that starts decides the same.
// The control is one that has had the subnet for longer.
func TestWhoHasANumberKeepsIt(t *testing.T) {
	const victims, chosen, number = "s2144", "s1252", "3096137"
	victim, thief := network("red", victims, "10.0.0.0/24"), network("blue", "beside", "10.0.0.0/24")
	thief.Created, victim.Created = time.Unix(2, 0), time.Unix(3, 0)
	thief.SubnetSince, victim.SubnetSince = map[string]time.Time{"beside": time.Unix(2, 0)}, map[string]time.Time{victims: time.Unix(3, 0)}
	taken := network("blue", "beside", "10.0.0.0/24", chosen, "10.9.9.0/24")
	renamed := network("blue", chosen, "10.0.0.0/24")
	taken.Created, renamed.Created = thief.Created, thief.Created
	taken.SubnetSince, renamed.SubnetSince = thief.SubnetSince, thief.SubnetSince
	noted, before := taken, taken
	noted.SubnetSince = map[string]time.Time{"beside": time.Unix(2, 0), chosen: time.Unix(9, 0)}
	before.SubnetSince = map[string]time.Time{"beside": time.Unix(2, 0), chosen: time.Unix(2, 0)}
	w := newWorld()
	w.setNetwork(thief)
	w.setNetwork(victim)
	w.settle()
	for _, step := range []struct {
		what   string
		blue   model.Network
		keeps  bool
		exists bool
	}{
		{"a subnet is added", taken, true, true},
		{"the status tells of it", noted, true, true},
		{"it goes", thief, true, false},
		{"a subnet gets another name", renamed, true, true},
		{"the control", before, false, true},
	} {
		w.setNetwork(step.blue)
		w.settle()
		fresh := newWorld()
		for _, n := range []model.Network{*w.networks["red"], *w.networks["blue"]} {
			fresh.setNetwork(n)
		}
		fresh.settle()
		for how, w := range map[string]*world{"as it is": w, "a fresh start": fresh} {
			has, there := w.numberOf("red", "red/"+victims)
			if !there || (has == number) != step.keeps {
				t.Errorf("%s, %s: red's switch asks for %q", step.what, how, has)
			}
			has, there = w.numberOf("blue", "blue/"+chosen)
			if there != step.exists || there && (has == number) == step.keeps {
				t.Errorf("%s, %s: blue's asks for %q, there %t", step.what, how, has, there)
			}
		}
	}
}
