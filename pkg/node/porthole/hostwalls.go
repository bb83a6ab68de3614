package porthole

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ours is any interface of the node's by which pods' packets come: those to portholes, and the node's own two.
const ours = "atoll*"

// Where chains begin.
var (
	// sentHere is what processes of the node send, and what tunnels make of it.
	sentHere = hook{nftables.ChainTypeFilter, nftables.ChainHookOutput, *nftables.ChainPriorityFilter, expr.VerdictAccept}
	// leavingHere is when it is decided by which interface.
	leavingHere = hook{nftables.ChainTypeFilter, nftables.ChainHookPostrouting, *nftables.ChainPriorityFilter, expr.VerdictAccept}
	// beforeServices is before kube-proxy puts an endpoint in place of a Service's address: for what is forwarded, and for what the
	// node sends.
	beforeServices     = hook{nftables.ChainTypeNAT, nftables.ChainHookPrerouting, *nftables.ChainPriorityNATDest - 10, expr.VerdictAccept}
	beforeServicesHere = hook{nftables.ChainTypeNAT, nftables.ChainHookOutput, *nftables.ChainPriorityNATDest - 10, expr.VerdictAccept}
)

// wallSets are what the walls look at.
func wallSets(t *transaction, host Host) {
	var ports []element
	for _, p := range host.Walls.TunnelPorts {
		ports = append(ports, element{key: binary.BigEndian.AppendUint16(nil, p)})
	}
	t.addSet(set{name: "tunnels", key: nftables.TypeInetService}, ports)
	t.prefixSets("closed", host.Cluster.Closed)
	t.endpointSets("databases", host.Walls.Databases)
	t.prefixSets("balancers", host.Walls.Balancers)
	t.prefixSets("flat-direct", subnetsWhere(host.Flat, func(f Flat) bool { return f.Infra == model.InfraDirect }))
	t.prefixSets("flat-api", subnetsWhere(host.Flat, func(f Flat) bool { return f.Infra != model.InfraNone }))
	t.prefixSets("flat-out", subnetsWhere(host.Flat, func(f Flat) bool { return f.Egress == model.EgressNode }))
}

// writeWalls keeps everybody's pods from tunnels and databases.
func writeWalls(t *transaction) {
	// Each of a tunnel's packets, answers too: in OVN's eyes they are all the same.
	t.chain("tunnel", "closed")
	t.rule("tunnel", iifname(ours), goTo("refuse"))
	// By a Service, whoever asks for it: its endpoint is what somebody wrote.
	t.rule("tunnel", ctStatusDNAT(), goTo("refuse"))

	t.both("closed", func(f family) []words { return []words{f.tcpEndpoint(), in("servers" + f.version), back()} })
	t.both("closed", func(f family) []words { return []words{f.daddr(), in("closed" + f.version), goTo("refuse")} })
	t.both("closed", func(f family) []words { return []words{f.tcpEndpoint(), in("databases" + f.version), goTo("refuse")} })

	// The kernel's own tunnels are no process's, but for what a process of the node has sent into them.
	t.base("tunnel-here", leavingHere)
	t.rule("tunnel-here", oifname(model.NodeInterface), ofSocket(), mark())
	t.base("output", sentHere)
	t.rule("output", udpPort(), in("tunnels"), ofSocket(), unmarked(), goTo("refuse"))
}

// writeBinding keeps kube-proxy from leading elsewhere what is for a pod, and what pods send: whoever may write a Service may
// write any address into it.
func writeBinding(t *transaction) {
	toPods := func(chain string) {
		for _, pods := range []string{"faces", "default"} {
			t.both(chain, func(f family) []words { return []words{f.daddr(), in(pods + f.version), f.bind()} })
		}
	}
	t.base("bind-here", beforeServicesHere)
	toPods("bind-here")

	t.base("bind", beforeServices)
	toPods("bind")
	// Direct access is to Services and node ports, too.
	t.both("bind", func(f family) []words {
		return []words{iif(), in("direct"), f.daddr(), in("infra" + f.version), accept()}
	})
	t.rule("bind", iifnameNot(ours), accept())
	t.rule("bind", iifname(anyPorthole), goTo("bind-all"))
	t.both("bind", func(f family) []words {
		return []words{f.saddr(), in("flat-direct" + f.version), f.daddr(), in("infra" + f.version), accept()}
	})
	t.both("bind", func(f family) []words { return []words{f.daddr(), in("balancers" + f.version), accept()} })
	t.rule("bind", goTo("bind-all"))
	t.both("bind-all", func(f family) []words { return []words{f.is(), f.bind()} })
}

// writeFlat judges what pods of flat Networks send to the node and past it.
func writeFlat(t *transaction) {
	t.chain("input-flat", "from-flat")
	for _, chain := range []string{"input-flat", "from-flat"} {
		t.rule(chain, ctState(established|related), accept())
		if chain == "input-flat" {
			// The node and the router look for each other.
			t.rule(chain, both[1].icmpType(), t.oneOf(nftables.TypeICMP6Type, bytesOf(neighborDiscovery()...)), accept())
		} else {
			// To other pods, by a Service.
			t.rule(chain, oifname(model.NodeInterface), accept())
		}
		t.rule(chain, ask("closed"))
		t.both(chain, func(f family) []words {
			return []words{f.saddr(), in("flat-api" + f.version), f.tcpEndpoint(), in("servers" + f.version), accept()}
		})
	}
	t.both("input-flat", func(f family) []words { return []words{f.saddr(), in("flat-direct" + f.version), accept()} })
	t.rule("input-flat", goTo("refuse"))

	t.both("from-flat", func(f family) []words { return []words{f.daddr(), in("never" + f.version), goTo("refuse")} })
	t.both("from-flat", func(f family) []words {
		return []words{f.saddr(), in("flat-direct" + f.version), f.daddr(), in("infra" + f.version), accept()}
	})
	t.both("from-flat", func(f family) []words { return []words{f.daddr(), in("infra" + f.version), goTo("refuse")} })
	t.both("from-flat", func(f family) []words { return []words{f.saddr(), in("flat-out" + f.version), accept()} })
	t.rule("from-flat", goTo("refuse"))
}
