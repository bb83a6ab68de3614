//go:build integration

package decide_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// TestLoadBalancersThatComeBackLeaveNorthdAlone: Services go and come back while ovn-northd has no time to look. Their load
// balancers would come back under their old UUIDs, and ovn-northd 25.03.0 ends over that: always with these twelve, not
// with one.
func TestLoadBalancersThatComeBackLeaveNorthdAlone(t *testing.T) {
	t.Parallel()
	const services = 12
	central := ovn.Start(t, true)
	nbctl(t, central, "init")
	c := newCluster()
	c.setNetwork(network("red", "pods", "10.0.0.0/24"))
	c.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	var all []model.Service
	for i := range services {
		s := service("r", fmt.Sprint("web", i), fmt.Sprint("10.96.1.", i))
		s.Ports = append(s.Ports, model.ServicePort{Name: "u", Protocol: model.UDP, Port: 53})
		e := slice("r", s.Key.Name, s.Key.Name)
		e.Endpoints = []model.Endpoint{endpoint("r", "", "192.0.2.1")}
		c.setService(s)
		c.setSlice(e)
		all = append(all, s)
	}
	startEngine(t, c, central.NBAddress(), "1")
	rowOf := func(protocol string) func() string {
		return func() string {
			return nbctl(t, central, "--bare", "--columns=_uuid", "find", "Load_Balancer", "external_ids:atoll.dev/owner=Service/r/web0",
				"protocol="+protocol)
		}
	}
	tcp, here := rowOf("tcp"), ""
	eventually(t, "there", func() string {
		if here = tcp(); here == "" {
			return "not there"
		}
		return "there"
	})
	nbctl(t, central, "--wait=sb", "sync")

	northd := central.PID("northd")
	if err := syscall.Kill(northd, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		c.deleteService(s.Key)
	}
	eventually(t, "", tcp)
	gone := time.Now()
	for _, s := range all {
		c.setService(s)
	}
	// Others are not kept waiting.
	c.setService(service("r", "other", "10.96.0.6"))
	eventually(t, "red/r/other:tcp", func() string {
		return nbctl(t, central, "--bare", "--columns=name", "find", "Load_Balancer", "external_ids:atoll.dev/owner=Service/r/other",
			"external_ids:atoll.dev/network=red")
	})
	if got := tcp(); got != "" {
		t.Errorf("%s came back after %s, before ovn-northd looked", got, time.Since(gone))
	}
	if err := syscall.Kill(northd, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	nbctl(t, central, "--wait=sb", "sync")
	eventually(t, here, tcp)
	t.Logf("back after %s", time.Since(gone).Round(time.Millisecond))
	nbctl(t, central, "--wait=sb", "sync")
}
