//go:build integration

package decide_test

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// BenchmarkPoliciesInOVN is a pod that comes onto 10,000, without policies and with 1,000, from the object to the southbound
// database; and what of that is ovn-northd's work. It also says what the policies are in OVN.
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
			northd(b, central, "inc-engine/clear-stats")
			before, n := northdCPU(b, central), benchPods
			for b.Loop() {
				n++
				p := benchPod(n)
				c.setPod(p)
				awaitPort(b, central, p.Key.String())
				sync()
			}
			cpu := northdCPU(b, central) - before
			b.ReportMetric(float64(cpu.Milliseconds())/float64(n-benchPods), "northd-ms/op")
			b.Logf("of %d pods ovn-northd recomputed: %s", n-benchPods, recomputed(northd(b, central, "inc-engine/show-stats")))
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
			b.ReportMetric(readJudges(b, central), "ms/read")
		})
	}
}

func northd(b testing.TB, c *ovn.Central, args ...string) string {
	b.Helper()
	out, err := c.Ask(b.Context(), "northd", args...)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// northdCPU is the processor time that ovn-northd has used.
func northdCPU(b testing.TB, c *ovn.Central) time.Duration {
	b.Helper()
	return processorTime(b, c.PID("northd"))
}

// processorTime is what a process has used. (proc_pid_stat(5).)
func processorTime(b testing.TB, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		b.Fatal(err)
	}
	nanoseconds, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(nanoseconds)
}

// recomputed are the nodes of ovn-northd's incremental engine that did not get by with changes, and how often. Those that
// are tables are inputs, which have nothing to compute.
func recomputed(stats string) string {
	var out []string
	name := ""
	for line := range strings.Lines(stats) {
		line = strings.TrimSpace(line)
		if found, isNode := strings.CutPrefix(line, "Node: "); isNode {
			name = found
		}
		if times, is := strings.CutPrefix(line, "- recompute:"); is && strings.TrimSpace(times) != "0" && !strings.HasPrefix(name, "NB_") &&
			!strings.HasPrefix(name, "SB_") {
			out = append(out, name+" "+strings.TrimSpace(times))
		}
	}
	return strings.Join(out, ", ")
}

// readJudges is how long a node takes to learn which flows it is to count for policies, in milliseconds; the best of five.
func readJudges(b *testing.B, c *ovn.Central) float64 {
	b.Helper()
	best := time.Hour
	for range 5 {
		began := time.Now()
		r, err := ovsdb.OpenReader(b.Context(), ovsdb.Config{Addresses: []string{c.SBAddress()}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		_, err = r.Judges(b.Context())
		r.Close()
		if err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	return float64(best) / float64(time.Millisecond)
}

// awaitPort waits until a port is in the northbound database.
func awaitPort(b *testing.B, c *ovn.Central, name string) {
	b.Helper()
	wait.Until(b, wait.Patience, name+" in the database", func() bool {
		out, err := c.NBCtl(b.Context(), "--bare", "--columns=name", "find", "Logical_Switch_Port", "name="+name)
		return err == nil && strings.TrimSpace(out) == name
	})
}
