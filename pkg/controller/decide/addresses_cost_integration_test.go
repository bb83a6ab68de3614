//go:build integration

package decide_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/ovn"
)

// TestWhatOwnAddressesCost holds what docs/compatibility.md says of own addresses by face: logical flows for each address of a
// provider's pods, and none for each consumer more.
func TestWhatOwnAddressesCost(t *testing.T) {
	const pods, consumers = 30, 10
	central, cluster := ovn.Start(t, true), newCluster()
	startEngineOf(t, cluster, central.NBAddress(), "one", withFaces("100.64.0.0/10", "fd64:a701::/64"))
	cluster.setNode(node("n1", 1))
	found := func(name string, i int) {
		n := network(name, "pods", fmt.Sprintf("10.%d.0.0/24", i))
		n.UID = uuid.NewString()
		n.Subnets[0].CIDRs = append(n.Subnets[0].CIDRs, netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", i)))
		cluster.setNetwork(n)
		cluster.setNamespace(name, map[string]string{model.LabelNetwork: name})
	}
	last := ""
	populate := func(name string, from, to int) {
		for i := from; i < to; i++ {
			p := pod(name, fmt.Sprint("pod-", i), "")
			p.UID = uuid.NewString()
			cluster.setPod(p)
			last = p.Key.String()
		}
	}
	says := func(addresses bool, consumers int) {
		n := *cluster.networks["provider"]
		n.CompatibleWith = nil
		for i := range consumers {
			n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: fmt.Sprint("consumer-", i), Addresses: addresses})
		}
		cluster.setNetwork(n)
	}
	found("provider", 1)
	for i := range consumers {
		found(fmt.Sprint("consumer-", i), i+2)
		populate(fmt.Sprint("consumer-", i), 0, 1)
	}
	populate("provider", 0, pods)
	// switches are how many have a group of load balancers.
	switches := func(group string) int {
		name := nb.GroupName("provider:"+group, cluster.networks["provider"].UID+"/"+group)
		row := strings.TrimSpace(nbctl(t, central, "--bare", "--columns=_uuid", "find", "Load_Balancer_Group", fmt.Sprintf("name=%q", name)))
		if row == "" {
			return 0
		}
		return len(strings.Fields(nbctl(t, central, "--bare", "--columns=name", "find", "Logical_Switch", "load_balancer_group{>=}"+row)))
	}
	measure := func(addresses bool, consumers int) amounts {
		t.Helper()
		says(addresses, consumers)
		want := [2]int{consumers}
		if addresses {
			want[1] = consumers
		}
		eventually(t, fmt.Sprint(want), func() string { return fmt.Sprint([2]int{switches("offered"), switches("addresses")}) })
		return measureOVN(t, central, last)
	}
	// What was deleted would wait for ten seconds before it comes back: own addresses come once.
	faces, facesAll := measure(false, 1), measure(false, consumers)
	all, one := measure(true, consumers), measure(true, 1)
	measure(true, consumers)
	// What a pod more is to ovn-northd.
	const come = 20
	pod := func(from int) float64 {
		before := northdCPU(t, central)
		for i := range come {
			populate("provider", from+i, from+i+1)
			eventually(t, last, func() string {
				out, err := central.NBCtl(t.Context(), "--bare", "--columns=name", "find", "Logical_Switch_Port", fmt.Sprintf("name=%q", last))
				if err != nil {
					return err.Error()
				}
				return strings.TrimSpace(out)
			})
			nbctl(t, central, "--wait=sb", "sync")
		}
		return float64((northdCPU(t, central) - before).Microseconds()) / 1000 / come
	}
	with := pod(pods)
	measure(false, consumers)
	without := pod(pods + come)
	first := one.since(faces, "flows") / (2 * pods)
	more := (all.since(facesAll, "flows") - one.since(faces, "flows")) / (consumers - 1)
	t.Logf("a pod that comes takes ovn-northd %.1f ms with %d consumers, and %.1f by faces alone", with, consumers, without)
	t.Logf("%.2f logical flows and %.0f bytes of the southbound database for each of %d addresses; %.2f and %.0f for each consumer more",
		first, one.since(faces, "south")/(2*pods), 2*pods, more, (all.since(facesAll, "south")-one.since(faces, "south"))/(consumers-1))
	if first > 2 || more > 1 {
		t.Errorf("%.2f logical flows for each address, and %.2f for each consumer more; want at most 2 and 1", first, more)
	}
}
