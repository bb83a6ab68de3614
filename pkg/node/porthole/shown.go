package porthole

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

// What the kernel shows of a table is not what was written: it gives names to sets that have none, and adds what goes without
// saying, more in each version. So the agent writes the wanted rules into an unused network namespace, reads both tables, and
// compares them.

// shownTable is a table as the kernel shows it.
type shownTable struct {
	there bool
	flags uint32
	// chains are by name, with their rules in order, and sets by name, those that have none of their own not among them.
	chains map[string]*shownChain
	sets   map[string]*shownSet
}

type shownChain struct {
	// base is where the kernel calls it, and what becomes of packets at its end; empty for one that rules lead to.
	base  string
	rules []shownRule
}

// shownRule is a rule: two of the same key do the same.
type shownRule struct{ key, text string }

type shownSet struct {
	*nftables.Set
	// elements are empty where packets fill the set.
	elements []nftables.SetElement
}

// tries is how often a table is read that somebody changes meanwhile.
const tries = 5

// errChanging: a table is changed again and again while it is read.
var errChanging = errors.New("read nftables: they are being changed")

// showTable reads a table of the family inet, in the namespace of the calling thread.
func showTable(name string) (*shownTable, error) {
	for range tries {
		before, err := generation()
		if err != nil {
			return nil, err
		}
		table, shown := readTable(name)
		after, err := generation()
		if err != nil {
			return nil, err
		}
		// What has changed meanwhile may be half one, half the other.
		if before == after {
			if shown != nil {
				return nil, fmt.Errorf("read nftables table %s: %w", name, shown)
			}
			return table, nil
		}
	}
	return nil, errChanging
}

// readTable reads a table that nobody changes meanwhile.
func readTable(name string) (*shownTable, error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetDeadline(time.Now().Add(patience))
	}))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	defer func() { _ = conn.CloseLasting() }()
	t := &shownTable{chains: map[string]*shownChain{}, sets: map[string]*shownSet{}}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == name })
	if i < 0 {
		return t, nil
	}
	// The library takes the kernel's number for one in this machine's order of bytes.
	t.there, t.flags = true, binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, tables[i].Flags))
	// Sets are read first: rules refer to anonymous ones.
	if err := t.readSets(conn, tables[i]); err != nil {
		return nil, err
	}
	return t, t.readChains(conn, tables[i])
}

func (t *shownTable) readSets(conn *nftables.Conn, table *nftables.Table) error {
	sets, err := conn.GetSets(table)
	if err != nil {
		return fmt.Errorf("list sets: %w", err)
	}
	for _, set := range sets {
		shown := &shownSet{Set: set}
		t.sets[set.Name] = shown
		if set.Dynamic {
			continue // What packets put there is nobody's to compare.
		}
		if shown.elements, err = conn.GetSetElements(set); err != nil {
			return fmt.Errorf("list elements of set %s: %w", set.Name, err)
		}
	}
	return nil
}

func (t *shownTable) readChains(conn *nftables.Conn, table *nftables.Table) error {
	chains, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	for _, chain := range chains {
		if chain.Table.Name != table.Name {
			continue
		}
		shown := &shownChain{}
		if chain.Hooknum != nil && chain.Priority != nil && chain.Policy != nil {
			shown.base = fmt.Sprintf("type %s hook %d priority %d policy %d", chain.Type, *chain.Hooknum, *chain.Priority, *chain.Policy)
		}
		rules, err := conn.GetRules(table, chain)
		if err != nil {
			return fmt.Errorf("list rules of chain %s: %w", chain.Name, err)
		}
		for _, rule := range rules {
			read, err := t.readRule(rule.Exprs)
			if err != nil {
				return fmt.Errorf("read rules of chain %s: %w", chain.Name, err)
			}
			shown.rules = append(shown.rules, read)
		}
		t.chains[chain.Name] = shown
	}
	return nil
}
