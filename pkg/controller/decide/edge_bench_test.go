package decide_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// BenchmarkEdge is a Network of a thousand that begins to use another one by face, and ends it: one that 500 use, and one that
// nobody uses. It is what the controller needs to know what to write, database and API server apart.
func BenchmarkEdge(b *testing.B) {
	const networks, consumers, perNode = 1_000, 500, 500
	name := func(i int) string { return fmt.Sprintf("net-%04d", i) }
	market := func() *world {
		w := facedWorld("100.64.0.0/10")
		for i := range networks/perNode + 1 {
			w.setNode(node(fmt.Sprint("node-", i), 1))
		}
		w.settle()
		for i := range networks {
			n := tenantNetwork(name(i), name(i), "a", "10.0.0.0/24")
			if 0 < i && i <= consumers {
				n.Uses = []string{"provider"}
			}
			w.setNetwork(n)
			w.setNamespace(name(i), map[string]string{model.LabelNetwork: name(i), model.LabelTenant: name(i)})
			p := pod(name(i), "pod", "")
			p.Node = fmt.Sprint("node-", i/perNode)
			w.setPod(p)
		}
		for _, of := range []string{"provider", "other"} {
			n := tenantNetwork(of, of, "a", "10.0.0.0/24")
			n.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/24")}
			for i := range networks {
				if of == "provider" && 0 < i && i <= consumers || i == networks-1 {
					n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: name(i), Mode: model.ByFace})
				}
			}
			w.setNetwork(n)
		}
		w.settle()
		return w
	}
	for what, begin := range map[string]func(n *model.Network){
		"face/used":   func(n *model.Network) { n.Uses = []string{"provider"} },
		"face/unused": func(n *model.Network) { n.Uses = []string{"other"} },
	} {
		b.Run(what, func(b *testing.B) {
			w := market()
			changed := func(change func(*model.Network)) {
				n := *w.networks[name(networks-1)]
				n.Generation++
				change(&n)
				w.setNetwork(n)
				w.settleOnce()
			}
			own := func() nb.Facts {
				facts, _ := w.graph.Facts(nb.NetworkOwner(name(networks - 1)))
				return facts
			}
			before := own()
			for b.Loop() {
				changed(begin)
				if len(own().Members) == len(before.Members) {
					b.Fatal("it changes nothing of the Network")
				}
				changed(func(n *model.Network) { n.Uses, n.CompatibleWith = nil, nil })
			}
		})
	}
}
