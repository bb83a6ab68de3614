package porthole

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/atoll-net/atoll/pkg/domain/egress"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// sourcesAtLast is later than what kube-proxy does to sources: what it has rewritten is not rewritten again.
var sourcesAtLast = hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource + 10, expr.VerdictAccept}

// anyPorthole is the node's end of any porthole.
const anyPorthole = hostPrefix + "*"

// hostRules are a transaction that makes the table of the node. It accepts what is not its own business: other tables judge that. host is
// normal.
func hostRules(host Host) *transaction {
	t := &transaction{}
	t.replaceTable(something)
	t.prefixSets("faces", host.Cluster.Faces)
	t.prefixSets("default", host.Default)
	t.prefixSets("hidden", slices.Concat(host.Blocks, host.Default))
	t.prefixSets("infra", host.Cluster.Infra)
	// A translator would be a way around.
	behind := egress.Behind(slices.Concat(model.Never4(), host.Cluster.Faces, host.Cluster.Infra, host.Cluster.Closed))
	t.prefixSets("never", slices.Concat(model.Never4(), model.Never6(), host.Cluster.Faces, behind))
	t.endpointSets("servers", host.Cluster.Servers)
	for _, f := range both {
		var self []element
		for _, p := range host.Addresses {
			if f.has(p.Addr()) {
				self = append(self, element{key: p.Addr().AsSlice()})
			}
		}
		t.addSet(set{name: "self" + f.version, key: f.address}, self)
	}
	var direct []string
	for _, uid := range host.Direct {
		direct = append(direct, IDOf(uid).HostLink())
	}
	t.addSet(set{name: "direct", key: nftables.TypeIFName, hostOrder: true}, ifnames(direct...))
	compatibleSets(t, host.Compatible)
	wallSets(t, host)
	t.chain("refuse", "bind-all")
	t.refuse("refuse")
	writeWalls(t)
	writeHostEntrance(t)
	writeBinding(t)
	writeFlat(t)
	writeHostInput(t)
	writeHostForward(t)
	writeCompatible(t)
	writeHostDisguise(t, host.Walls.Instead)
	// Pods of the default Network leave it here.
	writeCrowds(t, model.EdgeInterface, host.Cluster.MaxConnections)
	return t
}

// writeHostEntrance drops packets whose source cannot be where they come from.
func writeHostEntrance(t *transaction) {
	t.base("entrance", beforeConnections)
	// A tunnel's packets come by the interface that leads to their sender.
	t.rule("entrance", udpPort(), in("tunnels"), toHere(), noWayBack(), drop())
	// A porthole has its own faces.
	t.rule("entrance", iifname(anyPorthole), noWayBack(), drop())
	t.rule("entrance", iifname(anyPorthole), accept())
	// Pods of the default Network, and nobody else, leave it here.
	t.both("entrance", func(f family) []words {
		return []words{iifname(model.EdgeInterface), f.saddr(), notIn("default" + f.version), drop()}
	})
	// A face that comes from the machines' network is not one.
	t.both("entrance", func(f family) []words {
		return []words{iif(), t.noneOf(nftables.TypeIFName, ifnames(model.NodeInterface, "lo")), f.saddr(), in("faces" + f.version), drop()}
	})
}

// writeHostInput keeps portholes from the node itself.
func writeHostInput(t *transaction) {
	t.base("input", received(expr.VerdictAccept))
	t.rule("input", udpPort(), in("tunnels"), ask("tunnel"))
	t.rule("input", iif(), t.oneOf(nftables.TypeIFName, ifnames(model.NodeInterface, model.EdgeInterface)), goTo("input-flat"))
	t.rule("input", iifnameNot(anyPorthole), accept())
	// Answers to kubelet.
	t.rule("input", ctState(established|related), accept())
	t.rule("input", ask("closed"))
	t.both("input", func(f family) []words { return []words{f.tcpEndpoint(), in("servers" + f.version), accept()} })
	t.rule("input", iif(), in("direct"), accept())
	t.rule("input", goTo("refuse"))
}

// writeHostForward judges by interface, after kube-proxy has put a Service's endpoint in place of its address.
func writeHostForward(t *transaction) {
	t.chain("from-porthole", "to-porthole", "to-face", "from-face")
	t.base("forward", forwarded(expr.VerdictAccept))
	t.rule("forward", udpPort(), in("tunnels"), ask("tunnel"))
	t.rule("forward", iifname(anyPorthole), goTo("from-porthole"))
	t.rule("forward", oifname(anyPorthole), goTo("to-porthole"))
	// A pod of the default Network that used a Service here: the answer goes back the way it came.
	t.rule("forward", iifname(model.NodeInterface), oifname(model.NodeInterface), ctState(established|related), accept())
	// What else the default Network's router sends to this node stays here.
	t.rule("forward", iifname(model.NodeInterface), oifname(model.NodeInterface), drop())
	t.rule("forward", oifname(model.EdgeInterface), drop())
	t.rule("forward", iif(), t.oneOf(nftables.TypeIFName, ifnames(model.NodeInterface, model.EdgeInterface)), goTo("from-flat"))
	// From outside, by a Service.
	t.rule("forward", ctStatusDNAT(), ctOriginal(), ask("closed"))

	t.both("from-porthole", func(f family) []words { return []words{f.daddr(), in("faces" + f.version), goTo("to-face")} })
	t.rule("from-porthole", ctState(established|related), accept())
	t.rule("from-porthole", oifname(anyPorthole), goTo("refuse"))
	t.both("from-porthole", func(f family) []words { return []words{f.tcpEndpoint(), in("servers" + f.version), accept()} })
	t.rule("from-porthole", ask("closed"))
	t.both("from-porthole", func(f family) []words { return []words{f.daddr(), in("never" + f.version), goTo("refuse")} })
	t.rule("from-porthole", iif(), in("direct"), accept())
	t.rule("from-porthole", oif(), t.oneOf(nftables.TypeIFName, ifnames(model.NodeInterface, model.EdgeInterface)), goTo("refuse"))
	t.both("from-porthole", func(f family) []words { return []words{f.daddr(), in("infra" + f.version), goTo("refuse")} })
	t.rule("from-porthole", accept())

	for i, own := range model.OwnNodeAddresses() {
		// That is who the node itself is seen as, and nobody else.
		t.rule("to-porthole", both[i].saddr(), equal(own.AsSlice()), drop())
	}
	t.both("to-porthole", func(f family) []words { return []words{f.saddr(), in("faces" + f.version), goTo("from-face")} })
	t.rule("to-porthole", ctState(established|related), accept())
	// From the default Network and from other nodes.
	t.rule("to-porthole", iifname(model.NodeInterface), accept())
	// By a Service.
	t.rule("to-porthole", ctStatusDNAT(), accept())
	t.rule("to-porthole", drop())
}

// writeHostDisguise gives what leaves the node the node's address.
func writeHostDisguise(t *transaction, instead []Instead) {
	t.base("disguise", sourcesAtLast)
	for _, own := range model.OwnNodeAddresses() {
		// A pod sees its own node under an address by which policies let it in, on each node the same.
		t.rule("disguise", oifname(anyPorthole), fromHere(), snatTo(own))
	}
	t.rule("disguise", oifname(anyPorthole), accept())
	// Answers come back to this node only if they are for its own address in the default Network.
	t.both("disguise", func(f family) []words {
		return []words{oifname(model.NodeInterface), fromHere(), f.saddr(), notIn("self" + f.version), masquerade()}
	})
	// A pod of the default Network that used a Service here: the answer must pass here, too.
	t.both("disguise", func(f family) []words {
		return []words{oifname(model.NodeInterface), ctStatusDNAT(), f.saddr(), in("default" + f.version), masquerade()}
	})
	t.rule("disguise", oif(), t.oneOf(nftables.TypeIFName, ifnames(model.NodeInterface, model.EdgeInterface, "lo")), accept())
	for _, i := range instead {
		// A tunnel's address is no pod's to have: other nodes trust it.
		t.rule("disguise", oifname(i.Link), familyOf(i.Address).saddr(), in("hidden"+familyOf(i.Address).version), snatToRandom(i.Address))
	}
	t.both("disguise", func(f family) []words { return []words{f.saddr(), in("hidden" + f.version), masqueradeRandom()} })
}
