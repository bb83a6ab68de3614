package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestCapacity(t *testing.T) {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	for i := range 1200 {
		w.setNetwork(network(fmt.Sprintf("net-%d", i), "a", "10.0.0.0/24"))
	}
	for i := range 3 {
		w.setPod(pod("a", fmt.Sprintf("p%d", i), "red"))
	}
	w.setPod(asking("a", "lost", "red", model.NICRequest{IP: at("10.9.9.9")}))
	w.settle()
	c := w.state.Capacity()
	if len(c.Ranges) != 1000 ||
		c.Ranges[0] != (decide.RangeCapacity{Network: "red", Subnet: "front", CIDR: "10.0.0.0/24", Used: 3, Free: 250}) {
		t.Errorf("%d ranges, the fullest is %+v", len(c.Ranges), c.Ranges[0])
	}
	if len(c.Nodes) != 1 || c.Nodes[0].Node != "n1" || c.Nodes[0].Used != 3 || c.Nodes[0].Free != 507 {
		t.Errorf("nodes: %+v", c.Nodes)
	}
	if len(c.Refused) != 1 || c.Refused[model.ReasonAddressOutsideSubnet] != 1 {
		t.Errorf("refused: %v", c.Refused)
	}
}

func TestAStandbyTellsOfNoCapacity(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(controller.NewCapacityCollector(func() *controller.Controller { return nil }))
	want := "# HELP atoll_controller_leader 1 while this process leads; only then it tells of capacity.\n# TYPE atoll_controller_leader " +
		"gauge\natoll_controller_leader 0\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
