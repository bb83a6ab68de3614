package porthole

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/atoll-net/atoll/pkg/model"
)

// Names in the table of a porthole; each once per family.
const (
	// setPods has the own addresses of the pods here.
	setPods = "pods"
	// mapOwn gives the own address of a face, mapFace the face of an own address.
	mapOwn, mapFace = "own", "face"
)

// writeRules makes the table of a porthole. spec is normal.
func writeRules(nft knftables.Interface, spec Spec, upon before) *knftables.Transaction {
	t := newTable(nft, upon)
	t.addressSets(setPods)
	for _, v := range []string{"4", "6"} {
		for _, name := range []string{mapOwn, mapFace} {
			t.tx.Add(&knftables.Map{Name: name + v, Type: addressType(v) + " : " + addressType(v)})
		}
	}
	t.prefixSets("subnets", spec.Subnets)
	t.prefixSets("faces", spec.Cluster.Faces)
	t.prefixSets("infra", spec.Cluster.Infra)
	never := slices.Concat(never4(), never6(), spec.Cluster.Faces, spec.ServiceRanges)
	t.prefixSets("never", append(never, translated(slices.Concat(never, spec.Cluster.Infra))...))
	t.endpointSets("servers", spec.Cluster.Servers)

	writeEntrance(t)
	writeTranslation(t, spec)
	writeForward(t, spec)
	writeInput(t, spec)
	writePods(t, spec.Pods)
	return t.tx
}

// writeEntrance drops spoofed packets before a connection is looked for, and with them everything that the Network's
// own links speak among themselves.
func writeEntrance(t table) {
	t.base("entrance", hook{knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, knftables.AcceptPolicy})
	t.rules("entrance",
		`iifname "ovn0" $ip saddr != @pods$v drop`,
		`iifname "ovn0" icmp type redirect drop`,
		`iifname "ovn0" icmpv6 type { nd-redirect, nd-router-advert, nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } drop`,
	)
}

// writeTranslation turns faces into own addresses and back, and the Kubernetes API's address into a server's.
func writeTranslation(t table, spec Spec) {
	t.base("translate", hook{knftables.NATType, knftables.PreroutingHook, knftables.DNATPriority, ""})
	t.rules("translate", `iifname "host0" dnat $ip to $ip daddr map @own$v`)
	if spec.Infra != model.InfraNone {
		for _, api := range spec.API {
			if target := balanced(spec.Cluster.Servers, api.Addr()); target != "" {
				t.rules("translate", fmt.Sprintf(`iifname "ovn0" %s daddr %s tcp dport %d dnat %s to %s`,
					protocol(api.Addr()), api.Addr(), api.Port(), protocol(api.Addr()), target))
			}
		}
	}
	t.base("disguise", hook{knftables.NATType, knftables.PostroutingHook, knftables.SNATPriority, ""})
	t.rules("disguise", `oifname "host0" snat $ip to $ip saddr map @face$v`)
	// The client's address is kept, unless the Network would look for it among its own.
	for _, family := range families(true) {
		p := protocol(family)
		t.rules("disguise", fmt.Sprintf(`oifname "ovn0" %s saddr @subnets%s snat %s to %s`, p, version(family), p, errandAddress(family)))
	}
}

// protocol is nftables' name of an address' family in expressions.
func protocol(a netip.Addr) string {
	if a.Is4() {
		return "ip"
	}
	return "ip6"
}

// balanced is the target of a translation to one of the servers of a family, by chance; empty when there is none.
func balanced(servers []netip.AddrPort, like netip.Addr) string {
	var targets []netip.AddrPort
	for _, s := range servers {
		if s.Addr().Is4() == like.Is4() {
			targets = append(targets, s)
		}
	}
	switch len(targets) {
	case 0:
		return ""
	case 1:
		return targets[0].String()
	}
	var elements []string
	for i, s := range targets {
		elements = append(elements, fmt.Sprintf("%d : %s . %d", i, s.Addr(), s.Port()))
	}
	return fmt.Sprintf("numgen random mod %d map { %s }", len(targets), strings.Join(elements, ", "))
}

// writeForward judges what passes through. What nobody accepts is dropped.
func writeForward(t table, spec Spec) {
	t.chain("refuse", "in", "out")
	t.refuse("refuse")
	t.base("forward", hook{knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, knftables.DropPolicy})
	t.rules("forward",
		"ct state invalid drop",
		`iifname "host0" oifname "ovn0" goto in`,
		`iifname "ovn0" oifname "host0" goto out`,
	)
	t.rules("in",
		"ct state related accept",
		// Answers to what pods asked.
		"ct direction reply ct state established accept",
		// Another Network's pod, by whatever detour: nothing on this node sends with a face.
		"$ip saddr @faces$v drop",
		// To a face, else its address would be as it came.
		"ct status dnat accept",
	)
	t.rules("out",
		"ct state related accept",
		// Answers to who came in by a face.
		"ct direction reply ct state established accept",
	)
	if spec.Infra == model.InfraNone {
		// The servers' own addresses can be outside of the cluster, where the way out would lead.
		t.rules("out", "$ip daddr . tcp dport @servers$v goto refuse")
	} else {
		t.rules("out", "ct status dnat $ip daddr . tcp dport @servers$v accept")
	}
	t.rules("out", "$ip daddr @never$v goto refuse")
	if spec.Infra == model.InfraDirect {
		t.rules("out", "$ip daddr @infra$v accept")
	} else {
		t.rules("out", "$ip daddr @infra$v goto refuse")
	}
	if spec.Egress == model.EgressNode {
		t.rules("out", "accept")
	} else {
		t.rules("out", "goto refuse")
	}
}

// writeInput lets in what is for the porthole itself: questions for names.
func writeInput(t table, spec Spec) {
	t.base("input", hook{knftables.FilterType, knftables.InputHook, knftables.FilterPriority, knftables.DropPolicy})
	t.rules("input", `iifname "lo" accept`)
	for _, family := range families(true) {
		if list := anonymous(spec.DNS, family); list != anonymous(nil, family) {
			t.rules("input", fmt.Sprintf(`iifname "ovn0" %s daddr %s meta l4proto { tcp, udp } th dport 53 accept`, protocol(family), list))
		}
	}
	t.rules("input", `iifname "ovn0" ct state related accept`, `iifname "ovn0" goto refuse`)
}
