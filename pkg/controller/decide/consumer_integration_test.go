//go:build integration

package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// market is a number of Networks of the same addresses with a pod each, of which some use the first one, and a whole OVN without nodes.
type market struct {
	*cluster
	t       testing.TB
	central *ovn.Central
	// invites: the first Network says that another may use it, which does not exist.
	invites bool
}

const marketProvider = "net-0"

func newMarket(t testing.TB, networks int) *market {
	t.Helper()
	m := &market{cluster: newCluster(), t: t, central: ovn.Start(t, true)}
	startEngineOf(t, m.cluster, m.central.NBAddress(), "one", withFaces("100.64.0.0/10", "fd64:a701::/64"))
	for i := range 1 + networks/500 {
		m.setNode(node(fmt.Sprint("n", i), 1))
	}
	for i := range networks {
		name := marketName(i)
		m.setNetwork(network(name, "default", "10.0.0.0/24"))
		m.setNamespace(name, map[string]string{model.LabelNetwork: name})
		p := pod(name, "pod", "")
		p.Node = fmt.Sprint("n", i/500)
		m.setPod(p)
		if made := i + 1; made%100 == 0 || made == networks {
			m.await(fmt.Sprint(made, " pods have ports"), func() bool {
				return strings.Count(m.north("--bare", "--columns=name", "list", "Logical_Switch_Port"), "/pod\n") == made
			})
		}
	}
	return m
}

func marketName(i int) string { return fmt.Sprint("net-", i) }

func (m *market) north(args ...string) string {
	m.t.Helper()
	out, err := m.central.NBCtl(m.t.Context(), append([]string{"--timeout=300"}, args...)...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// await waits until something is so and ovn-northd has carried it on.
func (m *market) await(what string, so func() bool) {
	m.t.Helper()
	wait.Until(m.t, 5*time.Minute, what, so)
	m.north("--wait=sb", "sync")
}

// serve has the first Network serve those that come next, and waits until the last of them knows what it offers, and the one
// after does not.
func (m *market) serve(consumers int) {
	m.t.Helper()
	n := *m.networks[marketProvider]
	n.CompatibleWith = nil
	if m.invites {
		n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: "nobody"})
	}
	for i := range consumers {
		n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: marketName(i + 1)})
	}
	m.setNetwork(n)
	rows := func() int { return len(strings.Fields(m.north("--bare", "--columns=_uuid", "list", "Port_Group"))) }
	groups := func(i int) int {
		return len(strings.Fields(m.north("get", "Logical_Switch", marketName(i)+"/default", "load_balancer_group")))
	}
	m.await(fmt.Sprint(consumers, " consumers"), func() bool {
		return (consumers == 0 || groups(consumers) == 2) && groups(consumers+1) == 1 && (rows() > 0) == (m.invites || consumers > 0)
	})
}

// flows are all logical flows, each with its datapath.
func (m *market) flows() string {
	m.t.Helper()
	out, err := m.central.SBCtl(m.t.Context(), "--timeout=300", "lflow-list")
	if err != nil {
		m.t.Fatal(err)
	}
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// computesFlows reports whether ovn-northd has computed all ports or all logical flows anew, of late.
func (m *market) computesFlows() bool {
	m.t.Helper()
	all := strings.Split(recomputed(northd(m.t, m.central, "inc-engine/show-stats")), ", ")
	m.t.Log("computed anew: ", all)
	return slices.ContainsFunc(all, func(node string) bool {
		name, _, _ := strings.Cut(node, " ")
		return slices.Contains([]string{"northd", "port_group", "ls_stateful", "lflow"}, name)
	})
}

// A Network that begins to use another one which others use costs ovn-northd the switches of that Network, and not all that there
// is; and what it computes so is what it computes of everything anew. So does the first one, where the provider has said before
// that others may use it. Controls are the first one where it has not, which brings access lists, and one that ends it, whose
// switches lose a group of load balancers.
func TestAConsumerIsIncremental(t *testing.T) {
	m := newMarket(t, 20)
	m.setService(service(marketProvider, "web", "10.96.0.1"))
	for _, step := range []struct {
		what      string
		invites   bool
		consumers int
		all       bool
	}{
		{"the first", false, 1, true},
		{"one more", false, 2, false},
		{"three more", false, 5, false},
		{"one ends it", false, 4, true},
		{"it comes again", false, 5, false},
		{"all end it", true, 0, true},
		{"the first, invited", true, 1, false},
		{"the first ends it", true, 0, true},
		{"nobody is invited", false, 0, true},
		{"one is invited", true, 0, true},
		{"the first again, invited", true, 1, false},
	} {
		m.invites = step.invites
		northd(t, m.central, "inc-engine/clear-stats")
		m.serve(step.consumers)
		if got := m.computesFlows(); got != step.all {
			t.Errorf("%s: ovn-northd computes everything anew: %t, want %t", step.what, got, step.all)
		}
		if got := strings.Count(m.flows(), "ip4.dst == $"); got < step.consumers {
			t.Errorf("%s: %d logical flows let pods of %d consumers pass", step.what, got, step.consumers)
		}
		before := m.flows()
		northd(t, m.central, "inc-engine/recompute")
		m.north("--wait=sb", "sync")
		if diff := cmp.Diff(strings.Split(m.flows(), "\n"), strings.Split(before, "\n")); diff != "" {
			t.Errorf("%s: what ovn-northd has computed of it alone is something else (-of all, +of it alone):\n%s", step.what, diff)
		}
	}
}

// What a provider has for its consumers, and where it hangs, comes back when somebody takes it away: from one consumer, from the
// provider, and from all, so that the rows themselves are gone.
func TestWhatConsumersHoldComesBack(t *testing.T) {
	m := newMarket(t, 4)
	m.serve(2)
	look := func() string {
		lines := strings.Split(m.north("--no-headings", "--format=csv", "--columns=name,acls", "list", "Port_Group"), "\n")
		lines = append(lines, strings.Split(m.north("--no-headings", "--format=csv", "--columns=name,acls", "list", "Logical_Switch"), "\n")...)
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	want := look()
	group := strings.TrimSpace(m.north("--bare", "--columns=_uuid", "list", "Port_Group"))
	if len(strings.Fields(group)) != 1 {
		t.Fatalf("there are other port groups than the provider's: %s", group)
	}
	first := []string{"clear", "Logical_Switch", marketName(1) + "/default", "acls"}
	second := []string{"clear", "Logical_Switch", marketName(2) + "/default", "acls"}
	own := []string{"clear", "Logical_Switch", marketProvider + "/default", "acls"}
	away := []string{"destroy", "Port_Group", group}
	for what, taken := range map[string][]string{
		"from a consumer": first, "from the provider": away,
		"from all": slices.Concat(first, []string{"--"}, second, []string{"--"}, own, []string{"--"}, away),
	} {
		m.north(taken...)
		eventually(t, want, look)
		t.Log("it is there again after it was taken ", what)
	}
}

// BenchmarkConsumerInOVN is what one more consumer takes of ovn-northd's processor time, and what its end does; and the same of
// the first one, where the provider has said before that others may use it, and where it has not.
func BenchmarkConsumerInOVN(b *testing.B) {
	for _, of := range []struct {
		what                string
		networks, consumers int
		invites             bool
	}{{"more", 60, 30, false}, {"more", 200, 100, false}, {"first", 200, 0, false}, {"invited", 200, 0, true}} {
		b.Run(fmt.Sprintf("%s/networks=%d", of.what, of.networks), func(b *testing.B) {
			m := newMarket(b, of.networks)
			consumers := of.consumers
			m.invites = of.invites
			m.serve(consumers)
			count := func() int {
				out, err := m.central.SBCtl(b.Context(), "--timeout=300", "--bare", "--columns=_uuid", "list", "Logical_Flow")
				if err != nil {
					b.Fatal(err)
				}
				return len(strings.Fields(out))
			}
			flows := count()
			northd(b, m.central, "inc-engine/clear-stats")
			var comes, ends, idle time.Duration
			for b.Loop() {
				// What it takes to ask it whether it is done is taken off.
				began := northdCPU(b, m.central)
				m.north("--wait=sb", "sync")
				now := northdCPU(b, m.central)
				idle += now - began
				m.serve(consumers + 1)
				began, now = now, northdCPU(b, m.central)
				comes += now - began
				if flows != 0 {
					b.ReportMetric(float64(count()-flows), "flows-each")
					flows = 0
				}
				began = northdCPU(b, m.central)
				m.serve(consumers)
				ends += northdCPU(b, m.central) - began
			}
			m.computesFlows()
			for name, spent := range map[string]time.Duration{"comes": comes, "ends": ends, "sync": idle} {
				b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), name+"-northd-ms/op")
			}
		})
	}
}
