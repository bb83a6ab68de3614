package porthole

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// tableName is the nftables table of ours, in the node's namespace and in each porthole.
const tableName = "atoll"

// table is one transaction that makes the table.
type table struct{ tx *knftables.Transaction }

func newTable(nft knftables.Interface, upon before) table {
	t := table{nft.NewTransaction()}
	t.tx.Add(&knftables.Table{})
	if upon == something {
		// A table that is not there cannot be deleted; one that is made twice is made once. Whoever deletes waits in the
		// end until nobody can be reading any more what was there (for some 15 ms).
		t.tx.Delete(&knftables.Table{})
		t.tx.Add(&knftables.Table{})
	}
	return t
}

// hook is where a chain begins.
type hook struct {
	kind     knftables.BaseChainType
	at       knftables.BaseChainHook
	priority knftables.BaseChainPriority
	policy   knftables.BaseChainPolicy
}

func (t table) base(name string, h hook) {
	chain := &knftables.Chain{Name: name, Type: &h.kind, Hook: &h.at, Priority: &h.priority}
	if h.policy != "" {
		chain.Policy = &h.policy
	}
	t.tx.Add(chain)
}

func (t table) chain(names ...string) {
	for _, name := range names {
		t.tx.Add(&knftables.Chain{Name: name})
	}
}

// rules adds rules to a chain. One with $ip becomes two, of IPv4 and IPv6, with $v as 4 and 6 in names.
func (t table) rules(chain string, rules ...string) {
	for _, rule := range rules {
		if !strings.Contains(rule, "$ip") {
			t.tx.Add(&knftables.Rule{Chain: chain, Rule: rule})
			continue
		}
		for _, r := range []*strings.Replacer{
			strings.NewReplacer("$ip", "ip", "$v", "4"), strings.NewReplacer("$ip", "ip6", "$v", "6"),
		} {
			t.tx.Add(&knftables.Rule{Chain: chain, Rule: r.Replace(rule)})
		}
	}
}

// addressType is nftables' name of the type of an address.
func addressType(version string) string { return "ipv" + version + "_addr" }

// version is the 4 or 6 in names of sets.
func version(a netip.Addr) string {
	if a.Is4() {
		return "4"
	}
	return "6"
}

// addressSets adds an empty set of single addresses per family.
func (t table) addressSets(name string) {
	for _, v := range []string{"4", "6"} {
		t.tx.Add(&knftables.Set{Name: name + v, Type: addressType(v)})
	}
}

// prefixSets adds a set of prefixes per family and fills it.
func (t table) prefixSets(name string, elements []netip.Prefix) {
	for _, v := range []string{"4", "6"} {
		t.tx.Add(&knftables.Set{Name: name + v, Type: addressType(v), Flags: []knftables.SetFlag{knftables.IntervalFlag}})
	}
	for _, p := range prefixes(elements) {
		t.tx.Add(&knftables.Element{Set: name + version(p.Addr()), Key: []string{p.String()}})
	}
}

// endpointSets adds a set of address and TCP port per family and fills it.
func (t table) endpointSets(name string, elements []netip.AddrPort) {
	for _, v := range []string{"4", "6"} {
		t.tx.Add(&knftables.Set{Name: name + v, Type: addressType(v) + " . inet_service"})
	}
	for _, e := range elements {
		t.tx.Add(&knftables.Element{
			Set: name + version(e.Addr()), Key: []string{e.Addr().String(), fmt.Sprint(e.Port())},
		})
	}
}

// refuse adds a chain that tells a sender at once.
func (t table) refuse(chain string) {
	t.rules(chain, "meta l4proto tcp reject with tcp reset", "reject with icmpx admin-prohibited")
}

// quoted is a list of addresses as an anonymous set.
func anonymous(addresses []netip.Addr, like netip.Addr) string {
	var texts []string
	for _, a := range addresses {
		if a.Is4() == like.Is4() {
			texts = append(texts, a.String())
		}
	}
	slices.Sort(texts)
	return "{ " + strings.Join(texts, ", ") + " }"
}
