package porthole

import (
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/atoll-net/atoll/pkg/model"
)

// afterKubeProxy is later than what kube-proxy does to sources: what it has rewritten is not rewritten again.
const afterKubeProxy knftables.BaseChainPriority = "srcnat + 10"

// writeHostRules makes the table of the node. It accepts what is not its own business: other tables judge that. host is
// normal.
func writeHostRules(nft knftables.Interface, host Host) *knftables.Transaction {
	t := newTable(nft, something)
	t.prefixSets("faces", host.Cluster.Faces)
	t.prefixSets("default", host.Default)
	t.prefixSets("hidden", append(append([]netip.Prefix{}, host.Blocks...), host.Default...))
	t.prefixSets("infra", host.Cluster.Infra)
	t.prefixSets("never", append(append(never4(), never6()...), host.Cluster.Faces...))
	t.endpointSets("servers", host.Cluster.Servers)
	t.addressSets("self")
	for _, p := range host.Addresses {
		t.tx.Add(&knftables.Element{Set: "self" + version(p.Addr()), Key: []string{p.Addr().String()}})
	}
	t.tx.Add(&knftables.Set{Name: "direct", Type: "ifname"})
	for _, uid := range host.Direct {
		t.tx.Add(&knftables.Element{Set: "direct", Key: []string{`"` + IDOf(uid).HostLink() + `"`}})
	}
	t.chain("refuse")
	t.refuse("refuse")
	writeHostEntrance(t)
	writeHostInput(t)
	writeHostForward(t)
	writeHostDisguise(t)
	return t.tx
}

// writeHostEntrance drops packets whose source cannot be where they come from.
func writeHostEntrance(t table) {
	t.base("entrance", hook{knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, knftables.AcceptPolicy})
	t.rules("entrance",
		// A porthole has its own faces.
		`iifname "atollh-*" fib saddr . iif oif missing drop`,
		`iifname "atollh-*" accept`,
		// Pods of the default Network, and nobody else, leave it here.
		`iifname "atoll1" $ip saddr != @default$v drop`,
		// A face that comes from the machines' network is not one.
		`iifname != { "atoll0", "lo" } $ip saddr @faces$v drop`,
	)
}

// writeHostInput keeps portholes from the node itself.
func writeHostInput(t table) {
	t.base("input", hook{knftables.FilterType, knftables.InputHook, knftables.FilterPriority, knftables.AcceptPolicy})
	t.rules("input",
		`iifname != "atollh-*" accept`,
		// Answers to kubelet.
		"ct state established,related accept",
		"$ip daddr . tcp dport @servers$v accept",
		"iifname @direct accept",
		"goto refuse",
	)
}

// writeHostForward judges by interface, after kube-proxy has put a Service's endpoint in place of its address.
func writeHostForward(t table) {
	t.chain("from-porthole", "to-porthole")
	t.base("forward", hook{knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, knftables.AcceptPolicy})
	t.rules("forward",
		`iifname "atollh-*" goto from-porthole`,
		`oifname "atollh-*" goto to-porthole`,
		// A pod of the default Network that used a Service here: the answer goes back the way it came.
		`iifname "atoll0" oifname "atoll0" ct state established,related accept`,
		// What else the default Network's router sends to this node stays here.
		`iifname "atoll0" oifname "atoll0" drop`,
		`oifname "atoll1" drop`,
	)
	t.rules("from-porthole",
		"ct state established,related accept",
		`oifname "atollh-*" goto refuse`,
		"$ip daddr . tcp dport @servers$v accept",
		"$ip daddr @never$v goto refuse",
		"iifname @direct accept",
		`oifname { "atoll0", "atoll1" } goto refuse`,
		"$ip daddr @infra$v goto refuse",
		"accept",
	)
	for i, own := range model.OwnNodeAddresses() {
		// That is who the node itself is seen as, and nobody else.
		t.rules("to-porthole", [2]string{"ip", "ip6"}[i]+" saddr "+own.String()+" drop")
	}
	t.rules("to-porthole",
		"ct state established,related accept",
		// From the default Network and from other nodes.
		`iifname "atoll0" accept`,
		// By a Service.
		"ct status dnat accept",
		"drop",
	)
}

// writeHostDisguise gives what leaves the node the node's address.
func writeHostDisguise(t table) {
	t.base("disguise", hook{knftables.NATType, knftables.PostroutingHook, afterKubeProxy, ""})
	for i, own := range model.OwnNodeAddresses() {
		// A pod sees its own node under an address by which policies let it in, on each node the same.
		ip := [2]string{"ip", "ip6"}[i]
		t.rules("disguise", `oifname "atollh-*" fib saddr type local snat `+ip+" to "+own.String())
	}
	t.rules("disguise",
		`oifname "atollh-*" accept`,
		// Answers come back to this node only if they are for its own address in the default Network.
		`oifname "atoll0" fib saddr type local $ip saddr != @self$v masquerade`,
		// A pod of the default Network that used a Service here: the answer must pass here, too.
		`oifname "atoll0" ct status dnat $ip saddr @default$v masquerade`,
		`oifname { "atoll0", "atoll1", "lo" } accept`,
		"$ip saddr @hidden$v masquerade fully-random",
	)
}
