//go:build integration

package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// BenchmarkFaceGuardInOVN is a pod that comes to a default Network of 1,000, when no other Network has faces, so that there is no
// guard, when one has, and when 20 have: what of it is ovn-northd's work, and how many logical flows the switch and OVN have.
func BenchmarkFaceGuardInOVN(b *testing.B) {
	const pods = 1_000
	for _, networks := range []int{0, 1, 20} {
		b.Run(fmt.Sprint("networks=", networks), func(b *testing.B) {
			central, c := ovn.Start(b, true), newCluster()
			startEngineOf(b, c, central.NBAddress(), "one", withFaces("100.64.0.0/10", "fd64:a701::/64"))
			home := network("default", "pods", "10.244.0.0/16")
			home.Type = model.Flat
			c.setNetwork(home)
			for i := range networks {
				c.setNetwork(network(fmt.Sprint("vpc-", i), "pods", "10.0.0.0/24"))
			}
			c.setNode(node("n1", 1))
			for _, ns := range []string{"plain", "kube-system"} {
				c.setNamespace(ns, nil)
			}
			for i := range pods {
				ns := "plain"
				if i%10 == 0 {
					ns = "kube-system"
				}
				c.setPod(pod(ns, fmt.Sprint("pod-", i), ""))
			}
			awaitPort(b, central, fmt.Sprint("plain/pod-", pods-1))
			sync := func() {
				if _, err := central.NBCtl(b.Context(), "--timeout=300", "--wait=sb", "sync"); err != nil {
					b.Fatal(err)
				}
			}
			sync()
			before, n := northdCPU(b, central), pods
			for b.Loop() {
				n++
				p := pod("plain", fmt.Sprint("pod-", n), "")
				c.setPod(p)
				awaitPort(b, central, p.Key.String())
				sync()
			}
			b.ReportMetric(float64((northdCPU(b, central)-before).Microseconds())/1000/float64(n-pods), "northd-ms/op")
			flows, err := central.SBCtl(b.Context(), "lflow-list", "default/pods")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(strings.Count(flows, "table=")-3*n), "flows-besides-3-per-pod")
		})
	}
}
