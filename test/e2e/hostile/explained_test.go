//go:build e2e

package hostile

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// explainedPaths: so many are explained, and tried by packets, in worlds of worldPaths each, half of them before the edges of the world change and half after.
var explainedPaths = flag.Int("paths", 200, "how many paths TestExplainAgreesWithPackets explains")

const worldPaths = 1000

// outsideName is a name that the rest of the world has.
const outsideName = "www.outside.test"

// asking is one path: whom a pod sends to, and how that is asked.
type asking struct {
	kind string
	from int
	// address is dialled, or name, at port.
	address  netip.Addr
	name     string
	port     uint16
	protocol wire.Protocol
}

// explained is what is said of a path, and what was seen of it.
type explained struct {
	asking
	says inspect.Explanation
	err  error
	// seen is what became of packets, by the addresses that were dialled. resolved are those of a name; unresolved says why there are none.
	seen       map[netip.Addr]random.Seen
	resolved   []netip.Addr
	unresolved string
	// exits are what ovn-trace says of the first way: see traced.
	exits trails
	// wrong is what does not agree; empty if all does.
	wrong string
}

// TestExplainAgreesWithPackets: in worlds that nobody chose, with Networks of the same addresses, peers, faces, Services, policies, names and what is outside, atoll explain says of
// each path what packets do, and what ovn-trace says. The control: what was explained before the edges of a world changed, is wrong of packets after it.
func TestExplainAgreesWithPackets(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("go test -tags e2e ./test/e2e/hostile -run ExplainAgreesWithPackets -seed %d -paths %d draws the same", *seed, *explainedPaths)
	t.Attr("seed", fmt.Sprint(*seed))
	kinds, stale := map[string]int{}, 0
	worlds := (*explainedPaths + worldPaths - 1) / worldPaths
	left := *explainedPaths
	for i := range worlds {
		paths := left / (worlds - i)
		left -= paths
		t.Run(fmt.Sprint(i), func(t *testing.T) { stale += explainWorld(t, *seed+uint64(i), paths, kinds) })
	}
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		words = append(words, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	if stale == 0 {
		t.Error("control: what was explained before the edges changed, agrees with packets after it")
	}
	t.Attr("paths", strings.Join(words, ", "))
	t.Logf("seed %d: %s; by what was explained before the edges changed, %d would disagree", *seed, strings.Join(words, ", "), stale)
}

// explainWorld makes a world, and has paths explained and tried before and after its edges change. It returns how many of the explanations before disagree with packets after.
func explainWorld(t *testing.T, seed uint64, paths int, kinds map[string]int) (stale int) {
	scene := between.Draw(seed, env.Box.Nodes())
	world := buildBetween(t, scene)
	// Half of the Networks have a way out.
	for i, n := range scene.Networks {
		if i%2 == 0 {
			env.ChangeNetwork(t, n.Name, func(s *v1alpha1.NetworkSpec) { s.Egress = v1alpha1.EgressNode })
		}
	}
	asked := drawAskings(t, seed, world, paths/2)
	before := agree(t, world, asked, "at first")
	changed := scene.Change(seed)
	for i, n := range changed.Networks {
		world.Networks[i].Network = n
		said := specOf(n)
		env.ChangeNetwork(t, n.Name, func(s *v1alpha1.NetworkSpec) {
			s.CompatibleWith, s.Uses, s.UsesAddressesOf = said.CompatibleWith, said.Uses, said.UsesAddressesOf
		})
	}
	after := agree(t, world, asked, "after the change")
	for i := range after {
		old := after[i]
		old.says, old.err = before[i].says, before[i].err
		if old.judge(world) != "" {
			stale++
		}
	}
	for _, all := range [][]explained{before, after} {
		for _, e := range all {
			kind := e.kind
			if e.err == nil && !e.says.Reached {
				kind += " (stopped)"
			}
			kinds[kind]++
		}
	}
	return stale
}

// drawAskings draws paths of each kind.
func drawAskings(t *testing.T, seed uint64, world between.World, count int) (out []asking) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	nodes := []netip.Addr{}
	for _, n := range env.Box.Nodes() {
		nodes = append(nodes, env.NodeAddresses(t, n)...)
	}
	all := world.Paths()
	byWay := map[random.Way][]random.Path{}
	for _, p := range all {
		byWay[p.Way] = append(byWay[p.Way], p)
	}
	speaks := func(from int, a netip.Addr) bool {
		return slices.ContainsFunc(world.Pods[from].Own, func(own netip.Addr) bool { return own.Is4() == a.Is4() })
	}
	drawn := map[asking]bool{}
	for len(out) < count {
		from := r.IntN(len(world.Pods))
		a := asking{from: from, port: wire.DefaultPort, protocol: []wire.Protocol{wire.TCP, wire.UDP}[r.IntN(2)]}
		switch kind := r.IntN(20); {
		case kind < 13:
			way := []random.Way{random.ByAddress, random.ByAddress, random.ByFace, random.ByFace, random.ByService}[r.IntN(5)]
			p := byWay[way][r.IntN(len(byWay[way]))]
			a.kind, a.from, a.address, a.protocol = "by "+string(way), p.From, p.Address, p.Protocol
		case kind < 16:
			a.kind, a.name, a.protocol = "by name", "web."+world.Networks[r.IntN(len(world.Networks))].Name+".svc.cluster.local", wire.TCP
		case kind == 16:
			a.kind, a.name, a.protocol = "by a name outside", outsideName, wire.TCP
		case kind < 19:
			a.kind, a.address, a.protocol = "outside", sandbox.OutsideAddresses()[r.IntN(2)], wire.TCP
		default:
			// A node's kubelet, and what keeps credentials in clouds.
			a.kind, a.address, a.port, a.protocol = "infrastructure", append(nodes, netip.MustParseAddr("169.254.169.254"))[r.IntN(len(nodes)+1)], 10250, wire.TCP
		}
		if a.address.IsValid() && !speaks(a.from, a.address) || drawn[a] {
			continue
		}
		drawn[a] = true
		out = append(out, a)
	}
	return out
}

// agree explains and tries all paths, and those again on which it does not agree, until all does: rows and packets are not looked at in the same moment.
func agree(t *testing.T, world between.World, asked []asking, when string) []explained {
	t.Helper()
	edges, dialled := between.Edges(world.Networks), between.Dialled(world.Networks)
	cluster.Eventually(t, cluster.Patience, "who reaches whom "+when, func(ctx context.Context) error { return says(ctx, world, edges, dialled) })
	out := make([]explained, len(asked))
	pending := make([]int, len(asked))
	for i, a := range asked {
		out[i].asking, pending[i] = a, i
	}
	rounds := 0
	cluster.Eventually(t, cluster.Patience, "explain agrees with packets "+when, func(ctx context.Context) error {
		rounds++
		some := make([]*explained, 0, len(pending))
		for _, i := range pending {
			out[i] = explained{asking: out[i].asking}
			some = append(some, &out[i])
		}
		if err := explainAll(ctx, world, some); err != nil {
			return err
		}
		if err := sendAll(ctx, world, some); err != nil {
			return err
		}
		if err := traceAll(t, world, some); err != nil {
			return err
		}
		var again []int
		var wrong []string
		for _, i := range pending {
			if out[i].wrong = out[i].judge(world); out[i].wrong == "" {
				out[i].wrong = out[i].judgeTrace(world)
			}
			if out[i].wrong != "" {
				again = append(again, i)
				wrong = append(wrong, out[i].String(world))
			}
		}
		t.Logf("%s, round %d: of %d paths %d disagree", when, rounds, len(pending), len(again))
		if pending = again; len(again) == 0 {
			return nil
		}
		return fmt.Errorf("%d of %d paths disagree:\n%s", len(again), len(asked), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	})
	return out
}

// explainAll has paths explained, by one look at the API server and the databases.
func explainAll(ctx context.Context, world between.World, all []*explained) error {
	access := inspect.Access{Kubeconfig: env.Box.Kubeconfig(), Northbound: []string{env.Box.NBAddress()}, Southbound: []string{env.Box.SBAddress()}}
	known, err := inspect.ReadWorld(ctx, access)
	if err != nil {
		return err
	}
	defer known.Close()
	for _, e := range all {
		e.says, e.err = inspect.Explain(known, e.question(world, e.address))
	}
	return nil
}

// question is the path as explain is asked; of a name, the address is not valid.
func (e *explained) question(world between.World, address netip.Addr) inspect.Question {
	from := world.Pods[e.from]
	q := inspect.Question{From: inspect.End{Pod: model.PodKey{Namespace: from.Namespace, Name: from.Name}}, To: inspect.End{Address: address}, Protocol: model.Protocol(e.protocol), Port: e.port}
	if e.name != "" {
		q.To = inspect.End{Name: e.name}
	}
	return q
}

// String is the path in words, with what does not agree.
func (e *explained) String(world between.World) string {
	from := world.Pods[e.from]
	to := e.name
	if to == "" {
		to = e.address.String()
	}
	verdict := fmt.Sprint(e.err)
	if e.err == nil {
		verdict = e.says.Verdict()
	}
	return fmt.Sprintf("%s (%s) to %s:%d %s, %s: %s. It says: %s", from, from.Network, to, e.port, e.protocol, e.kind, e.wrong, verdict)
}
