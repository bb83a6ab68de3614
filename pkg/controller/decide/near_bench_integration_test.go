//go:build integration

package decide_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// BenchmarkNearServicesInOVN is what a Service with an endpoint on each of 50 nodes takes, among 200 Networks, without and with
// internalTrafficPolicy Local: one of its endpoints that goes and comes, by the processor time of ovn-northd and of a node's
// ovn-controller; the first one that has its port, and a second one; and its logical flows and bytes.
func BenchmarkNearServicesInOVN(b *testing.B) {
	const nodes = 50
	for _, local := range []bool{false, true} {
		b.Run(fmt.Sprint("local=", local), func(b *testing.B) {
			m := newMarket(b, 200)
			for i := range nodes {
				m.setNode(node(fmt.Sprint("n", i), 1))
			}
			controller := m.host(b, "n0")
			used := func() time.Duration { return processorTime(b, controller) }
			serve := func(name, ip string, endpoints int) {
				s := service(marketProvider, name, ip)
				s.Local = local
				of := slice(marketProvider, name, name)
				for i := range endpoints {
					e := endpoint(marketProvider, "", fmt.Sprintf("192.0.2.%d", i+1))
					e.Node = fmt.Sprint("n", i)
					of.Endpoints = append(of.Endpoints, e)
				}
				m.setService(s)
				m.setSlice(of)
				row := marketProvider + "/" + s.Key.String() + ":tcp"
				if local {
					row += ":near:ipv4"
				}
				m.await(name, func() bool {
					rows := m.north("--bare", "--columns=vips", "find", "Load_Balancer", fmt.Sprintf("name=%q", row))
					return strings.Count(rows, ":8080") == endpoints
				})
				m.north("--wait=hv", "sync")
			}
			size := func() (flows, bytes int) {
				for db, ask := range map[string]func(...string) (string, error){
					"sb": func(args ...string) (string, error) { return m.central.Ask(b.Context(), "sb", args...) },
					"nb": func(args ...string) (string, error) { return m.central.Ask(b.Context(), "nb", args...) },
				} {
					if _, err := ask("ovsdb-server/compact"); err != nil {
						b.Fatal(err)
					}
					info, err := os.Stat(m.central.File(db))
					if err != nil {
						b.Fatal(err)
					}
					bytes += int(info.Size())
				}
				out, err := m.central.SBCtl(b.Context(), "--timeout=300", "--bare", "--columns=_uuid", "list", "Logical_Flow")
				if err != nil {
					b.Fatal(err)
				}
				return len(strings.Fields(out)), bytes
			}
			spent := map[string]time.Duration{}
			measure := func(what string, do func()) {
				m.north("--wait=hv", "sync")
				central, chassis := northdCPU(b, m.central), used()
				do()
				spent[what+"-northd"] += northdCPU(b, m.central) - central
				spent[what+"-controller"] += used() - chassis
			}
			measure("sync", func() { m.north("--wait=hv", "sync") })
			flows, bytes := size()
			measure("first", func() { serve("first", "10.96.0.1", nodes) })
			moreFlows, moreBytes := size()
			measure("second", func() { serve("second", "10.96.0.2", nodes) })
			again, againBytes := size()
			northd(b, m.central, "inc-engine/clear-stats")
			for b.Loop() {
				measure("goes", func() { serve("first", "10.96.0.1", nodes-1) })
				measure("comes", func() { serve("first", "10.96.0.1", nodes) })
			}
			for name, n := range map[string]int{"first": moreFlows - flows, "second": again - moreFlows} {
				b.ReportMetric(float64(n), name+"-flows")
			}
			for name, n := range map[string]int{"first": moreBytes - bytes, "second": againBytes - moreBytes} {
				b.ReportMetric(float64(n), name+"-bytes")
			}
			for _, what := range []string{"first", "second", "sync"} {
				for _, of := range []string{"-northd", "-controller"} {
					b.ReportMetric(float64(spent[what+of].Microseconds())/1000, what+of+"-ms")
				}
			}
			b.Log("computed anew for endpoints: ", recomputed(northd(b, m.central, "inc-engine/show-stats")))
			for _, what := range []string{"goes", "comes"} {
				for _, of := range []string{"-northd", "-controller"} {
					b.ReportMetric(float64(spent[what+of].Microseconds())/1000/float64(b.N), what+of+"-ms/op")
				}
			}
		})
	}
}

// host starts a node on which the pod of the first Network is, and returns its ovn-controller's process.
func (m *market) host(b *testing.B, name string) (controller int) {
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	datapath, err := ovn.Datapath()
	if err != nil {
		b.Fatal(err)
	}
	m.north("init")
	if _, err := m.central.SBCtl(b.Context(), "init"); err != nil {
		b.Fatal(err)
	}
	c, err := ovn.StartChassis(b.Context(), ovn.ChassisOptions{Dir: dir, Name: name, Southbound: m.central.SBAddress(), Datapath: datapath})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Stop)
	key := model.PodKey{Namespace: marketProvider, Name: "pod"}
	a := m.attachment(key)
	g, err := c.Plug(b.Context(), ovn.Interface{
		Port: key.String(), UID: m.pods[key].UID, MAC: a.MAC, Addresses: a.Addresses, Gateways: []netip.Addr{},
	})
	if err == nil {
		err = c.Installed(b.Context(), g)
	}
	if err != nil {
		b.Fatal(err)
	}
	return c.PID("ovn-controller")
}
