package cluster_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestOnlyWhatChangesIsTold: objects come again whenever anything of theirs changes.
func TestOnlyWhatChangesIsTold(t *testing.T) {
	t.Parallel()
	stage := pass.NewOrder("cluster").Stage("cluster")
	c := cluster.New(cluster.Settings{Infrastructure: []string{"kube-system"}}, stage)
	var told []string
	c.NamespaceChanged.Follow(stage, func(name string) { told = append(told, "namespace "+name) })
	c.NodeChanged.Follow(stage, func(name string) { told = append(told, "node "+name) })
	c.HostChanged.Follow(stage, func(a netip.Addr) { told = append(told, "host "+a.String()) })
	c.AddressesChanged.Follow(stage, func(struct{}) { told = append(told, "addresses") })
	c.NamelessChanged.Follow(stage, func(struct{}) { told = append(told, "nameless") })
	node := func(addresses ...string) map[string]*model.Node {
		n := &model.Node{Name: "n1"}
		for _, a := range addresses {
			n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
		}
		return map[string]*model.Node{"n1": n}
	}
	team := func(labels map[string]string) map[string]*model.Namespace {
		return map[string]*model.Namespace{"team": {Name: "team", Labels: labels}}
	}
	report := func(addresses ...netip.Addr) map[string]*model.NodeReport {
		return map[string]*model.NodeReport{"n1": {Addresses: addresses, DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}}
	}
	for i, step := range []struct {
		do   func()
		want []string
	}{
		{func() { c.TakeNamespaces(team(nil)) }, []string{"namespace team"}},
		{func() { c.TakeNamespaces(team(map[string]string{})) }, nil},
		{func() { c.TakeNamespaces(team(map[string]string{"a": "b"})) }, []string{"namespace team"}},
		{func() { c.TakeNodes(node("192.0.2.1")) }, []string{"addresses", "host 192.0.2.1", "node n1"}},
		{func() { c.TakeNodes(node("192.0.2.1")) }, nil},
		{func() { c.TakeNodes(node("192.0.2.2")) }, []string{"addresses", "host 192.0.2.1", "host 192.0.2.2", "node n1"}},
		{func() { c.TakeReports(report(netip.MustParseAddr("198.51.100.7"))) }, []string{"addresses"}},
		// What is said of a node that is not there counts with its Node, and no longer.
		{func() { c.TakeReports(map[string]*model.NodeReport{"n2": {}}) }, nil},
		{func() { c.TakeNodes(map[string]*model.Node{"n2": {Name: "n2"}}) }, []string{"nameless", "node n2"}},
		{func() {
			c.TakeReports(map[string]*model.NodeReport{"n2": {Tunnels: []netip.Addr{netip.MustParseAddr("198.51.100.8")}}})
		}, []string{"addresses"}},
		{func() { c.TakeNodes(map[string]*model.Node{"n2": nil}) }, []string{"addresses", "nameless", "node n2"}},
		{func() { c.TakeReports(map[string]*model.NodeReport{"n2": nil}) }, nil},
		{func() { c.TakeNamespaces(map[string]*model.Namespace{"team": nil}) }, []string{"namespace team"}},
	} {
		told = nil
		step.do()
		if slices.Sort(told); !slices.Equal(step.want, told) {
			t.Errorf("step %d: %s", i, cmp.Diff(step.want, told))
		}
	}
	if a, n := c.MachinesWithin(netip.MustParsePrefix("198.51.100.0/24")); n != 1 || a != netip.MustParseAddr("198.51.100.7") {
		t.Errorf("%d machines, the first is %s", n, a)
	}
	if _, n := c.NodesWithin(netip.MustParsePrefix("198.51.100.0/24")); n != 0 {
		t.Errorf("%d nodes", n)
	}
}

func TestInfrastructure(t *testing.T) {
	t.Parallel()
	c := cluster.New(cluster.Settings{Infrastructure: []string{"kube-system", "absent"}}, pass.NewOrder("cluster").Stage("cluster"))
	c.TakeNamespaces(map[string]*model.Namespace{
		"kube-system": {Name: "kube-system"}, "team": {Name: "team"},
		"proxies": {Name: "proxies", Labels: map[string]string{model.LabelInfrastructure: "true"}},
	})
	for name, want := range map[string]bool{"kube-system": true, "proxies": true, "team": false, "absent": false, "unknown": false} {
		if got := c.IsInfrastructure(name); got != want {
			t.Errorf("%s is infrastructure: %v, want %v", name, got, want)
		}
	}
}
