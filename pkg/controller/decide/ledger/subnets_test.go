package ledger_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

func subnet(name, cidr, gateway string) compile.SubnetLayout {
	a := netip.MustParseAddr(gateway)
	return compile.SubnetLayout{Name: name, Ranges: []compile.Range{{
		CIDR: netip.MustParsePrefix(cidr), Gateway: a, Reserved: []model.AddrRange{{First: a, Last: a}},
	}}}
}

func newSubnets() (s *ledger.Subnets, freed map[string]int) {
	stage := pass.NewOrder("pods").Stage("pods")
	s, freed = ledger.NewSubnets(stage), map[string]int{}
	s.Freed.Follow(stage, func(network string) { freed[network]++ })
	return s, freed
}

var podA = ledger.Pod(model.PodKey{Namespace: "r", Name: "a"})

func TestWhoHasAnAddressKeepsItWhileItsRangeStays(t *testing.T) {
	t.Parallel()
	s, _ := newSubnets()
	s.Serve("red", "uid", []compile.SubnetLayout{subnet("a", "10.0.0.0/24", "10.0.0.1"), subnet("b", "10.0.1.0/24", "10.0.1.1")})
	first, _ := s.Pools("red", "a")[0].Next(podA)
	second, _ := s.Pools("red", "b")[0].Next(podA)
	// The range grows, its gateway is the pod's address now, and the other subnet goes.
	s.Serve("red", "uid", []compile.SubnetLayout{subnet("a", "10.0.0.0/23", first.String())})
	if holder, held := s.Pools("red", "a")[0].Holder(first); !held || holder != podA {
		t.Errorf("%s is of %v, want %v", first, holder, podA)
	}
	if _, held := s.Pools("red", "a")[0].Holder(second); held {
		t.Errorf("%s is held in another subnet than it was given in", second)
	}
	if len(s.Pools("red", "b")) != 0 {
		t.Error("a subnet that is not served has pools")
	}
	s.Serve("red", "another", []compile.SubnetLayout{subnet("a", "10.0.0.0/23", "10.0.0.1")})
	if used := s.Pools("red", "a")[0].Used(); used != 0 {
		t.Errorf("a Network that was made anew has given %d addresses", used)
	}
	s.Drop("red")
	if len(s.Pools("red", "a")) != 0 {
		t.Error("a Network that has gone has pools")
	}
}

func TestWhatComesFreeIsTold(t *testing.T) {
	t.Parallel()
	s, freed := newSubnets()
	s.Serve("red", "uid", []compile.SubnetLayout{subnet("a", "10.0.0.0/30", "10.0.0.1")})
	pool := s.Pools("red", "a")[0]
	a, _ := pool.Next(podA)
	waiter := model.PodKey{Namespace: "r", Name: "b"}
	if _, ok := pool.Next(ledger.Pod(waiter)); ok {
		t.Fatal("a range of one address gave two")
	}
	s.Waiting.Add("red", waiter)
	s.Release("red", "a", []netip.Addr{a}, ledger.Pod(waiter))
	if outcome, _ := pool.Take(a, ledger.Pod(waiter)); outcome != alloc.InUse {
		t.Errorf("somebody gave back what another has: %v", outcome)
	}
	s.Release("red", "a", []netip.Addr{a}, podA)
	if outcome, _ := pool.Take(a, ledger.Pod(waiter)); outcome != alloc.Taken || freed["red"] != 2 {
		t.Errorf("the address came free and is %v; told %d times", outcome, freed["red"])
	}
	if diff := cmp.Diff(map[model.PodKey]struct{}{waiter: {}}, s.Waiting["red"]); diff != "" {
		t.Errorf("who waits (-want +got):\n%s", diff)
	}
	s.Waiting.Drop("red", waiter)
	if len(s.Waiting) != 0 {
		t.Errorf("nobody waits, and %v are known", s.Waiting)
	}
}
