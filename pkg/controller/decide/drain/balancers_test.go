package drain_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestTimePassesForEachOwner: an owner is named when something of its is over, and one that is deleted never.
func TestTimePassesForEachOwner(t *testing.T) {
	t.Parallel()
	order := pass.NewOrder("cluster", "services")
	b := drain.NewBalancers(graph.New(), order.Stage("cluster"))
	var named []nb.Owner
	b.Elapsed.Follow(order.Stage("services"), func(owner nb.Owner) { named = append(named, owner) })
	start := time.Unix(1000, 0)
	after := func(passed time.Duration, want ...nb.Owner) {
		t.Helper()
		named = nil
		if b.Turn(start.Add(passed)); !cmp.Equal(want, named) {
			t.Errorf("after %s: %v, want %v", passed, named, want)
		}
	}
	after(0)
	one := map[drain.Endpoint]struct{}{{Network: "red", Port: 53, Address: netip.MustParseAddrPort("10.0.0.2:53")}: {}}
	web, dns := nb.ServiceOwner("r", "web"), nb.ServiceOwner("r", "dns")
	for _, owner := range []nb.Owner{web, dns} {
		b.Leave(owner, one, nil)
		if list := b.Leave(owner, nil, nil); len(list) != 0 {
			t.Errorf("%s: %v is drained at once", owner, list)
		}
	}
	b.Delete(dns)
	if want := start.Add(200 * time.Millisecond); !b.Next().Equal(want) {
		t.Errorf("next at %s, want %s", b.Next(), want)
	}
	after(100 * time.Millisecond)
	after(200*time.Millisecond, web)
	if diff := cmp.Diff(one, b.Leave(web, nil, nil), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("draining (-want +got):\n%s", diff)
	}
	after(time.Minute, web)
	b.Leave(web, nil, nil)
	if !b.Next().IsZero() {
		t.Errorf("something is over at %s", b.Next())
	}
}
