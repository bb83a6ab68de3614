package netdev

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// GuardTable is the nftables table of Guard.
const GuardTable = "atoll-guard"

// Guard keeps the node's own network stack from taking what pods send. With the userspace datapath Open
// vSwitch reads a copy of each frame from the node's end of a pair, and the kernel keeps the original: without
// this a pod could reach the node's services, or have the node forward its packets past OVN. With the kernel
// datapath frames get that far only while the link is no port: before Open vSwitch has taken it, and when the port
// was lost. ARP is silenced per interface, see quieten.
//
// Guard may be called again at any time; the rule is replaced in one transaction.
func Guard() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Name: GuardTable, Family: nftables.TableFamilyINet})
	conn.FlushTable(table)
	accept := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{
		Name:     "from-pods",
		Table:    table,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityRaw,
		Policy:   &accept,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		// Fewer bytes than a name has compare as a prefix.
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte(Prefix)},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write nftables table %s: %w", GuardTable, err)
	}
	return nil
}

// Quieten keeps the node from speaking on an interface that is the bridge's. It runs before the interface is up.
func Quieten(host string) error {
	return Set(host,
		Setting{"ipv6", "disable_ipv6", "1"},
		// Answer ARP for none of the node's addresses.
		Setting{"ipv4", "arp_ignore", "8"},
	)
}
