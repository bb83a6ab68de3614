//go:build integration

package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/ovn"
)

// BenchmarkPoliciesInOVN is a pod that comes onto 10,000, without policies and with 1,000, from the object to the southbound
// database. It also says what the policies are in OVN.
func BenchmarkPoliciesInOVN(b *testing.B) {
	for _, policies := range []int{0, 1_000} {
		b.Run(fmt.Sprint("policies=", policies), func(b *testing.B) {
			central, c := ovn.Start(b, true), newCluster()
			startEngine(b, c, central.NBAddress(), "one")
			fill(c, benchPods)
			for i := range policies {
				c.setPolicy(benchPolicy(i))
			}
			awaitPort(b, central, fmt.Sprint(benchNamespace(benchPods-1), "/pod-", benchPods-1))
			sync := func() {
				if _, err := central.NBCtl(b.Context(), "--timeout=300", "--wait=sb", "sync"); err != nil {
					b.Fatal(err)
				}
			}
			sync()
			n := benchPods
			for b.Loop() {
				n++
				p := benchPod(n)
				c.setPod(p)
				awaitPort(b, central, p.Key.String())
				sync()
			}
			count := func(ctl func(...string) (string, error), table string) float64 {
				out, err := ctl("--no-headings", "--columns=_uuid", "list", table)
				if err != nil {
					b.Fatal(err)
				}
				return float64(len(strings.Fields(out)))
			}
			north := func(args ...string) (string, error) { return central.NBCtl(b.Context(), args...) }
			south := func(args ...string) (string, error) { return central.SBCtl(b.Context(), args...) }
			b.ReportMetric(count(north, "ACL"), "ACLs")
			b.ReportMetric(count(north, "Port_Group"), "groups")
			b.ReportMetric(count(south, "Logical_Flow"), "flows")
		})
	}
}

// awaitPort waits until a port is in the northbound database.
func awaitPort(b *testing.B, c *ovn.Central, name string) {
	b.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := c.NBCtl(b.Context(), "--bare", "--columns=name", "find", "Logical_Switch_Port", "name="+name)
		if err == nil && strings.TrimSpace(out) == name {
			return
		}
		select {
		case <-tick.C:
		case <-b.Context().Done():
			b.Fatalf("%s did not come: %v", name, err)
		}
	}
}
