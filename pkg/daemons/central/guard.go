package central

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// guardTable is the nftables table that guards a database's raft ports of this node.
func guardTable(kind Kind) *nftables.Table {
	return &nftables.Table{Name: "atoll-ovn-" + string(kind), Family: nftables.TableFamilyINet}
}

// guard drops what comes to the raft ports from other addresses than the members'. It stays when the member stops. Behind it a
// relay knows members by their certificates. A server that is reached directly does not: a node's certificate would do to join
// the southbound cluster. It may be called again at any time; the rules are replaced in one transaction.
func guard(conn *nftables.Conn, kind Kind, members []netip.Addr) error {
	table := conn.AddTable(guardTable(kind))
	conn.DelTable(table)
	table = conn.AddTable(guardTable(kind))
	accept := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{
		Name: "raft", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityRaw, Policy: &accept,
	})
	var elements [2][]nftables.SetElement
	for _, a := range members {
		f := 1
		if a = a.Unmap(); a.Is4() {
			f = 0
		}
		elements[f] = append(elements[f], nftables.SetElement{Key: a.AsSlice()})
	}
	for i, f := range families() {
		set := &nftables.Set{Table: table, Name: "members" + f.version, KeyType: f.key}
		if err := conn.AddSet(set, elements[i]); err != nil {
			return fmt.Errorf("guard the raft ports: %w", err)
		}
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(f.source(),
			&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}, &expr.Verdict{Kind: expr.VerdictReturn})})
	}
	for _, port := range []uint16{kind.RaftPort(), kind.RelayPort()} {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(toPort(port), &expr.Verdict{Kind: expr.VerdictDrop})})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("guard the raft ports: %w", err)
	}
	return nil
}

// family is how a source address is found and kept in a set.
type family struct {
	version     string
	number      byte
	offset, len uint32
	key         nftables.SetDatatype
}

func families() [2]family {
	return [2]family{{"4", unix.NFPROTO_IPV4, 12, 4, nftables.TypeIPAddr}, {"6", unix.NFPROTO_IPV6, 8, 16, nftables.TypeIP6Addr}}
}

// source loads the source address of a packet of the family into register 1.
func (f family) source() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{f.number}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.len},
	}
}

// toPort holds for TCP to a port.
func toPort(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
	}
}

// RemoveGuards removes the nftables tables of both databases' ports from the node. The members must have ended. It is no error if
// there is none.
func RemoveGuards() error {
	for _, kind := range []Kind{Northbound, Southbound} {
		conn, err := nftables.New()
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		for _, table := range []*nftables.Table{guardTable(kind), crowdTable(kind)} {
			conn.DelTable(table)
			if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove nftables table %s: %w", table.Name, err)
			}
		}
	}
	return nil
}
