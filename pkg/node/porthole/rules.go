package porthole

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/egress"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Names in the table of a porthole; each once per family.
const (
	// setPods has the own addresses of the pods here.
	setPods = "pods"
	// mapOwn gives the own address of a face, mapFace the face of an own address.
	mapOwn, mapFace = "own", "face"
)

// portholeRules are a transaction that makes its table. spec is normal.
func portholeRules(spec Spec, upon before) *transaction {
	t := &transaction{}
	t.replaceTable(upon)
	t.addressSets(setPods)
	t.addressMaps(mapOwn, mapFace)
	t.prefixSets("subnets", spec.Subnets)
	rules := spec.Rules()
	for _, set := range []egress.Set{egress.SetFaces, egress.SetInfra, egress.SetNever, egress.SetAddressed} {
		t.prefixSets(string(set), rules.Ranges(set))
	}
	t.endpointSets("servers", spec.Cluster.Servers)

	writeEntrance(t)
	writeTranslation(t, spec)
	writeForward(t, spec)
	writeInput(t, spec)
	writeCrowds(t, networkSide, spec.Cluster.MaxConnections)
	t.pods(unix.NFT_MSG_NEWSETELEM, spec.Pods)
	return t
}

// Where chains begin.
var (
	// beforeConnections is before a packet's connection is looked for.
	beforeConnections = hook{nftables.ChainTypeFilter, nftables.ChainHookPrerouting, *nftables.ChainPriorityRaw, expr.VerdictAccept}
	destinations      = hook{nftables.ChainTypeNAT, nftables.ChainHookPrerouting, *nftables.ChainPriorityNATDest, expr.VerdictAccept}
	sources           = hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, *nftables.ChainPriorityNATSource, expr.VerdictAccept}
)

// forwarded and received packets are judged, and at the end of the chain this becomes of them.
func forwarded(policy expr.VerdictKind) hook {
	return hook{nftables.ChainTypeFilter, nftables.ChainHookForward, *nftables.ChainPriorityFilter, policy}
}

func received(policy expr.VerdictKind) hook {
	return hook{nftables.ChainTypeFilter, nftables.ChainHookInput, *nftables.ChainPriorityFilter, policy}
}

// refuse adds a chain that tells a sender at once.
func (t *transaction) refuse(chain string) {
	t.rule(chain, rejectTCP())
	t.rule(chain, prohibited())
}

// writeEntrance drops spoofed packets before a connection is looked for, and with them everything that the Network's
// own links speak among themselves.
func writeEntrance(t *transaction) {
	ip, ip6 := both[0], both[1]
	t.base("entrance", beforeConnections)
	t.both("entrance", func(f family) []words {
		return []words{iifname(networkSide), f.saddr(), notIn(setPods + f.version), drop()}
	})
	t.rule("entrance", iifname(networkSide), ip.icmpType(), equal([]byte{icmpRedirect}), drop())
	t.rule("entrance", iifname(networkSide), ip6.icmpType(), t.oneOf(nftables.TypeICMP6Type, bytesOf(neighborDiscovery()...)), drop())
}

// icmpRedirect is of RFC 792.
const icmpRedirect = 5

// neighborDiscovery are the types of its messages: router solicitation and advertisement, neighbor solicitation and advertisement,
// redirect. (RFC 4861.)
func neighborDiscovery() []byte { return []byte{133, 134, 135, 136, 137} }

// writeTranslation turns faces into own addresses and back, and the Kubernetes API's address into a server's.
func writeTranslation(t *transaction, spec Spec) {
	t.base("translate", destinations)
	t.both("translate", func(f family) []words {
		return []words{iifname(hostSide), f.daddr(), mapped(mapOwn + f.version), f.dnat()}
	})
	if spec.Infra != model.InfraNone {
		for _, api := range spec.API {
			f := familyOf(api.Addr())
			if servers := endpointsOf(f, spec.Cluster.Servers); len(servers) > 0 {
				t.rule("translate", iifname(networkSide), f.daddr(), equal(api.Addr().AsSlice()), l4proto(unix.IPPROTO_TCP), dport(api.Port()),
					t.dnatToOne(f, servers))
			}
		}
	}
	t.base("disguise", sources)
	t.both("disguise", func(f family) []words {
		return []words{oifname(hostSide), f.saddr(), mapped(mapFace + f.version), f.snat()}
	})
	// The client's address is kept, unless the Network would look for it among its own.
	t.both("disguise", func(f family) []words {
		return []words{oifname(networkSide), f.saddr(), in("subnets" + f.version), snatTo(model.ErrandAddress(f.any.Is4()))}
	})
}

// endpointsOf are those of some endpoints.
func endpointsOf(f family, all []netip.AddrPort) (of []netip.AddrPort) {
	for _, e := range all {
		if f.has(e.Addr()) {
			of = append(of, e)
		}
	}
	return of
}

// writeForward judges what passes through. What nobody accepts is dropped.
func writeForward(t *transaction, spec Spec) {
	t.chain("refuse", "in", "out")
	t.refuse("refuse")
	t.base("forward", forwarded(expr.VerdictDrop))
	t.rule("forward", ctState(invalid), drop())
	t.rule("forward", iifname(hostSide), oifname(networkSide), goTo("in"))
	t.rule("forward", iifname(networkSide), oifname(hostSide), goTo("out"))

	t.strangers("in", family.saddr, direction{asked: spec.Provider, answered: spec.Consumer}, drop())
	t.rule("in", ctState(related), accept())
	// Answers to what pods asked.
	t.rule("in", ctReply(), ctState(established), accept())
	// To a face, else its address would be as it came.
	t.rule("in", ctStatusDNAT(), accept())

	t.strangers("out", family.daddr, direction{asked: spec.Consumer, answered: spec.Provider}, goTo("refuse"))
	t.rule("out", ctState(related), accept())
	// Answers to who came in by a face.
	t.rule("out", ctReply(), ctState(established), accept())
	for _, step := range spec.Rules().Steps() {
		t.step("out", step)
	}
}

// step adds the rules for one step of what a Network's pods reach past it.
func (t *transaction) step(chain string, s egress.Step) {
	verdict := goTo("refuse")
	if s.Pass {
		verdict = accept()
	}
	switch s.Set {
	case egress.SetRest:
		t.rule(chain, verdict)
	case egress.SetServers:
		var of words
		if s.Translated {
			of = ctStatusDNAT()
		}
		t.both(chain, func(f family) []words { return []words{of, f.tcpEndpoint(), in(string(s.Set) + f.version), verdict} })
	default:
		t.both(chain, func(f family) []words { return []words{f.daddr(), in(string(s.Set) + f.version), verdict} })
	}
}

// writeInput lets in what is for the porthole itself: questions for names, and what is relayed to the Kubernetes API.
func writeInput(t *transaction, spec Spec) {
	t.base("input", received(expr.VerdictDrop))
	t.rule("input", iifname("lo"), accept())
	for _, f := range both {
		var servers []element
		for _, a := range spec.DNS {
			if f.has(a) {
				servers = append(servers, element{key: a.AsSlice()})
			}
		}
		if len(servers) > 0 {
			t.rule("input", iifname(networkSide), f.daddr(), t.oneOf(f.address, servers),
				l4protocol(), t.oneOf(nftables.TypeInetProto, bytesOf(unix.IPPROTO_TCP, unix.IPPROTO_UDP)), dport(dnsPort), accept())
		}
	}
	for _, at := range spec.Relayed {
		t.rule("input", iifname(networkSide), familyOf(at.Addr()).daddr(), equal(at.Addr().AsSlice()), l4proto(unix.IPPROTO_TCP),
			dport(at.Port()), accept())
	}
	t.rule("input", iifname(networkSide), ctState(related), accept())
	t.rule("input", iifname(networkSide), goTo("refuse"))
}

// dnsPort is where names are asked for. (RFC 1035.)
const dnsPort = 53
