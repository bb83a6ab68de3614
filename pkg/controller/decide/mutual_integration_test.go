//go:build integration

package decide_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// Networks that all reach each other come at once, and go at once. Each one's switches refer to rows of all the others, and all of it is
// more than one transaction holds.
func TestManyMutualPairsAtOnce(t *testing.T) {
	const networks = 60
	for _, batch := range []int{0, 300} {
		t.Run(fmt.Sprint("batches of ", batch), func(t *testing.T) { mutualPairs(t, networks, batch) })
	}
}

func mutualPairs(t *testing.T, networks, batch int) {
	central, c := ovn.Start(t, false), newCluster()
	all := map[string]*model.Network{}
	for i := range networks {
		n := network(fmt.Sprintf("net-%d", i), "front", "10.0.0.0/24")
		n.CompatibleWith = []model.CompatiblePeer{{All: true}}
		all[n.Name] = &n
	}
	set := func(deleting bool) {
		c.change(func() {
			for name, n := range all {
				n := *n
				n.Deleting = deleting
				c.networks[name], c.changes.Networks[name] = &n, &n
			}
		})
	}
	e := startEngineWith(t, c, central.NBAddress(), controller.Config{
		Epoch: "one", MaxBatch: batch, Defaults: withFaces("100.64.0.0/10", "fd64:a701::/64"),
	})
	set(false)
	groups := func() string {
		counts := map[int]int{}
		for line := range strings.Lines(
			nbctl(t, central, "--no-headings", "--format=csv", "--columns=load_balancer_group", "list", "Logical_Switch")) {
			if n := strings.Count(line, "-"); n > 0 {
				counts[n/4]++
			}
		}
		return fmt.Sprint(counts)
	}
	took := eventually(t, fmt.Sprint(map[int]int{networks: networks}), groups)
	t.Logf("%d Networks are there after %s and %v transactions", networks, took.Round(time.Millisecond), e.committed(t))
	before := e.committed(t)
	set(true)
	took = eventually(t, "0 switches, 0 groups", func() string {
		count := func(table string) int {
			return len(strings.Fields(nbctl(t, central, "--bare", "--columns=_uuid", "list", table)))
		}
		return fmt.Sprintf("%d switches, %d groups", count("Logical_Switch"), count("Load_Balancer_Group"))
	})
	t.Logf("%d Networks have gone after %s and %v transactions", networks, took.Round(time.Millisecond), e.committed(t)-before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if events := c.eventsOf(name); len(events) > 0 {
			t.Errorf("Network %s hears %v", name, events)
		}
	}
}
