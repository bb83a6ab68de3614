package central

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	// maxOfAddress bounds the connections of one address to a database's port for clients. ovsdb-server has no bound, and keeps a
	// client that says nothing for two minutes. A node has two, a node of the control plane some more and up to 16 of people who ask
	// by inspection.
	maxOfAddress = 64
	// maxAddresses bounds the addresses that are counted. One that finds no room is not counted.
	maxAddresses = 1 << 16
)

// crowdTable is the nftables table that bounds the clients of a database.
func crowdTable(kind Kind) *nftables.Table {
	return &nftables.Table{Name: "atoll-ovn-" + string(kind) + "-clients", Family: nftables.TableFamilyINet}
}

// boundClients drops new connections to a database's port for clients when their address already has maxOfAddress connections. It
// counts from zero, so it must be called before the server starts.
func boundClients(conn *nftables.Conn, kind Kind) error {
	table := conn.AddTable(crowdTable(kind))
	conn.DelTable(table)
	table = conn.AddTable(crowdTable(kind))
	accept := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{
		Name: "clients", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &accept,
	})
	begins := make([]byte, 4)
	binary.NativeEndian.PutUint32(begins, expr.CtStateBitNEW)
	for _, f := range families() {
		set := &nftables.Set{Table: table, Name: "connections" + f.version, KeyType: f.key, Dynamic: true, Size: maxAddresses}
		if err := conn.AddSet(set, nil); err != nil {
			return fmt.Errorf("bound the clients of the database: %w", err)
		}
		rule := append(toPort(kind.ClientPort()),
			&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: begins, Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(append(rule, f.source()...),
			&expr.Dynset{SrcRegKey: 1, SetName: set.Name, SetID: set.ID, Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{
				&expr.Connlimit{Count: maxOfAddress, Flags: unix.NFT_LIMIT_F_INV},
			}}, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("bound the clients of the database: %w", err)
	}
	return nil
}
