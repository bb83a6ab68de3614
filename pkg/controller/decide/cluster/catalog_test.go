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

func TestCatalog(t *testing.T) {
	t.Parallel()
	stage := pass.NewOrder("cluster").Stage("cluster")
	c := cluster.NewCatalog(stage)
	var told []string
	c.ServiceChanged.Follow(stage, func(key model.ServiceKey) { told = append(told, "service "+key.Name) })
	c.SlicesChanged.Follow(stage, func(key model.ServiceKey) { told = append(told, "slices of "+key.Name) })
	key := func(name string) model.ServiceKey { return model.ServiceKey{Namespace: "r", Name: name} }
	vip := netip.MustParseAddr("10.96.0.7")
	service := func(name string, vips ...netip.Addr) *model.Service {
		return &model.Service{Key: key(name), ClusterIPs: vips}
	}
	slice := func(name, service string) map[model.SliceKey]*model.Slice {
		k := model.SliceKey{Namespace: "r", Name: name}
		return map[model.SliceKey]*model.Slice{k: {Key: k, Service: service}}
	}
	services := func(list map[string]*model.Service) map[model.ServiceKey]*model.Service {
		out := map[model.ServiceKey]*model.Service{}
		for name, s := range list {
			out[key(name)] = s
		}
		return out
	}
	expect := func(when string, want ...string) {
		t.Helper()
		slices.Sort(told)
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		told = nil
	}
	c.Take(services(map[string]*model.Service{"web": service("web", vip)}), slice("b", "web"))
	c.Take(nil, slice("a", "web"))
	expect("they come", "service web", "slices of web", "slices of web")
	if s := c.Slices(key("web")); len(s) != 2 || s[0].Key.Name != "a" {
		t.Errorf("its slices are %v", s)
	}
	c.Take(services(map[string]*model.Service{"web": nil, "new": service("new", vip)}), slice("b", "new"))
	expect("an address and a slice go to another", "service new", "service web", "slices of new", "slices of web")
	if !c.HasClusterIP(vip) || c.Service(key("web")) != nil || !c.Known(key("web")) {
		t.Error("the address is the other's, and of the first one a slice is left")
	}
	c.Take(services(map[string]*model.Service{"new": nil}), map[model.SliceKey]*model.Slice{{Namespace: "r", Name: "a"}: nil})
	expect("one goes, and a slice", "service new", "slices of web")
	if c.HasClusterIP(vip) || c.Known(key("web")) || !c.Known(key("new")) {
		t.Error("what has gone is known, or what is there is not")
	}
}
