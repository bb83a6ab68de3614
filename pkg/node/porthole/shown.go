package porthole

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What the kernel shows of a table is not what was written: it gives names to sets that have none, and adds what goes without saying, more in each version. So
// what should be there is written into a network namespace that nobody uses, and what the kernel shows of both is compared.

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
	// kind is what the kernel says of it but its elements, in bytes that mean the same where they are the same.
	kind string
	// flags are as nftables has them, and holds is the number of the keys' type.
	flags, holds uint32
	// elements are empty where packets fill the set.
	elements []shownElement
}

// shownElement is what is in a set.
type shownElement struct {
	key, value []byte
	end        bool
}

// tries is how often a table is read that somebody changes meanwhile.
const tries = 5

// errChanging: a table is changed again and again while it is read.
var errChanging = errors.New("read nftables: they are being changed")

// showTable reads a table of the family inet, in the namespace of the calling thread.
func showTable(name string) (*shownTable, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	defer conn.Close()
	for range tries {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return nil, fmt.Errorf("bound nftables' answer: %w", err)
		}
		before, err := generation()
		if err != nil {
			return nil, err
		}
		table, shown := reader{conn, name}.table()
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

// reader reads one table.
type reader struct {
	conn *netlink.Conn
	name string
}

// decode goes through attributes.
func decode(of []byte, each func(*netlink.AttributeDecoder) error) error {
	d, err := netlink.NewAttributeDecoder(of)
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		if err := each(d); err != nil {
			return err
		}
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	return nil
}

// dump asks for all objects of a kind, and goes through the attributes of each.
func (r reader) dump(kind uint16, question []byte, each func(attributes []byte) error) error {
	answers, err := r.conn.Execute(message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, netlink.Dump, unix.NFPROTO_INET, 0, question))
	if err != nil {
		return fmt.Errorf("ask the kernel: %w", err)
	}
	for _, answer := range answers {
		if len(answer.Data) < headerLength {
			continue
		}
		if err := each(answer.Data[headerLength:]); err != nil {
			return err
		}
	}
	return nil
}

// headerLength is that of netfilter's header, in bytes. (struct nfgenmsg.)
const headerLength = 4

// about are the attributes of a question about something of the table.
func (r reader) about(table uint16, more func(*netlink.AttributeEncoder)) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.String(table, r.name)
	if more != nil {
		more(e)
	}
	encoded, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode a question: %w", err)
	}
	return encoded, nil
}

func (r reader) table() (*shownTable, error) {
	t := &shownTable{chains: map[string]*shownChain{}, sets: map[string]*shownSet{}}
	err := r.dump(unix.NFT_MSG_GETTABLE, nil, func(attributes []byte) error {
		name, flags := "", uint32(0)
		err := decode(attributes, func(d *netlink.AttributeDecoder) error {
			switch d.Type() {
			case unix.NFTA_TABLE_NAME:
				name = d.String()
			case unix.NFTA_TABLE_FLAGS:
				flags = d.Uint32()
			}
			return nil
		})
		if name == r.name {
			t.there, t.flags = true, flags
		}
		return err
	})
	if err != nil || !t.there {
		return t, err
	}
	if err := r.chains(t); err != nil {
		return nil, err
	}
	if err := r.setsOf(t); err != nil {
		return nil, err
	}
	return t, r.rules(t)
}

func (r reader) chains(t *shownTable) error {
	return r.dump(unix.NFT_MSG_GETCHAIN, nil, func(attributes []byte) error {
		table, name, chain := "", "", &shownChain{}
		err := decode(attributes, func(d *netlink.AttributeDecoder) error {
			switch d.Type() {
			case unix.NFTA_CHAIN_TABLE:
				table = d.String()
			case unix.NFTA_CHAIN_NAME:
				name = d.String()
			case unix.NFTA_CHAIN_TYPE:
				chain.base += " type " + d.String()
			case unix.NFTA_CHAIN_POLICY:
				chain.base += fmt.Sprintf(" policy %d", d.Uint32())
			case unix.NFTA_CHAIN_HOOK:
				d.Nested(func(d *netlink.AttributeDecoder) error {
					for d.Next() {
						switch d.Type() {
						case unix.NFTA_HOOK_HOOKNUM:
							chain.base += fmt.Sprintf(" hook %d", d.Uint32())
						case unix.NFTA_HOOK_PRIORITY:
							chain.base += fmt.Sprintf(" priority %d", int32(d.Uint32()))
						}
					}
					return d.Err()
				})
			}
			return nil
		})
		if table == r.name {
			t.chains[name] = chain
		}
		return err
	})
}

// setsOf reads all sets, those without names of their own too, which rules need to be told apart.
func (r reader) setsOf(t *shownTable) error {
	question, err := r.about(unix.NFTA_SET_TABLE, nil)
	if err != nil {
		return err
	}
	err = r.dump(unix.NFT_MSG_GETSET, question, func(attributes []byte) error {
		table, name, set := "", "", &shownSet{}
		err := decode(attributes, func(d *netlink.AttributeDecoder) error {
			switch d.Type() {
			case unix.NFTA_SET_TABLE:
				table = d.String()
			case unix.NFTA_SET_NAME:
				name = d.String()
			case unix.NFTA_SET_FLAGS:
				set.flags = d.Uint32()
			case unix.NFTA_SET_KEY_TYPE:
				set.holds = d.Uint32()
				set.kind += fmt.Sprintf(" key %x", d.Bytes())
			case unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_DESC:
				set.kind += fmt.Sprintf(" %d:%x", d.Type(), d.Bytes())
			}
			return nil
		})
		if table == r.name {
			set.kind += fmt.Sprintf(" flags %x", set.flags)
			t.sets[name] = set
		}
		return err
	})
	if err != nil {
		return err
	}
	for name, set := range t.sets {
		if set.flags&unix.NFT_SET_EVAL != 0 {
			continue // What packets put there is nobody's to compare.
		}
		if err := r.elementsOf(name, set); err != nil {
			return err
		}
	}
	return nil
}

func (r reader) elementsOf(name string, set *shownSet) error {
	question, err := r.about(unix.NFTA_SET_ELEM_LIST_TABLE, func(e *netlink.AttributeEncoder) { e.String(unix.NFTA_SET_ELEM_LIST_SET, name) })
	if err != nil {
		return err
	}
	return r.dump(unix.NFT_MSG_GETSETELEM, question, func(attributes []byte) error {
		return decode(attributes, func(d *netlink.AttributeDecoder) error {
			if d.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return nil
			}
			d.Nested(func(list *netlink.AttributeDecoder) error {
				for list.Next() {
					one, err := readElement(list.Bytes())
					if err != nil {
						return err
					}
					set.elements = append(set.elements, one)
				}
				return list.Err()
			})
			return nil
		})
	})
}

func readElement(attributes []byte) (out shownElement, err error) {
	value := func(d *netlink.AttributeDecoder, into *[]byte) {
		d.Nested(func(d *netlink.AttributeDecoder) error {
			for d.Next() {
				if d.Type() == unix.NFTA_DATA_VALUE {
					*into = d.Bytes()
				}
			}
			return d.Err()
		})
	}
	err = decode(attributes, func(d *netlink.AttributeDecoder) error {
		switch d.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			value(d, &out.key)
		case unix.NFTA_SET_ELEM_DATA:
			value(d, &out.value)
		case unix.NFTA_SET_ELEM_FLAGS:
			out.end = d.Uint32()&unix.NFT_SET_ELEM_INTERVAL_END != 0
		}
		return nil
	})
	return out, err
}

func (r reader) rules(t *shownTable) error {
	question, err := r.about(unix.NFTA_RULE_TABLE, nil)
	if err != nil {
		return err
	}
	return r.dump(unix.NFT_MSG_GETRULE, question, func(attributes []byte) error {
		table, chain, rule := "", "", shownRule{}
		err := decode(attributes, func(d *netlink.AttributeDecoder) (err error) {
			switch d.Type() {
			case unix.NFTA_RULE_TABLE:
				table = d.String()
			case unix.NFTA_RULE_CHAIN:
				chain = d.String()
			case unix.NFTA_RULE_EXPRESSIONS:
				rule, err = t.readRule(d.Bytes())
			}
			return err
		})
		if in := t.chains[chain]; table == r.name && in != nil {
			in.rules = append(in.rules, rule)
		}
		return err
	})
}
