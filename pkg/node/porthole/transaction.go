package porthole

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// tableName is the nftables table of ours, in the node's namespace and in each porthole.
const tableName = "atoll"

// transaction is a change of our table, which the kernel makes as a whole or not at all. (linux/netfilter/nf_tables.h;
// nfnetlink_rcv_batch in net/netfilter/nfnetlink.c.)
type transaction struct {
	statements []statement
	// contents are the elements of the sets that have names, which come after all else.
	contents []content
	// named and nameless are how many sets it adds: each has a number, by which a rule finds its own, which has no name.
	named, nameless uint32
	// err is of what could not be put into words.
	err error
}

// statement is a message about the table.
type statement struct {
	netlink.Message
	// chain whose rules it is of; empty when all stands on it: the table, a chain, a set that has a name.
	chain string
}

// content are elements of a set, to be added or to be taken out of it.
type content struct {
	set      string
	elements []element
	kind     uint16
}

// say adds a message about the table. Each kind of message has attributes of its own, but the first is always the table's name.
func (t *transaction) say(kind uint16, flags netlink.HeaderFlags, attributes func(*netlink.AttributeEncoder)) {
	encoder := netlink.NewAttributeEncoder()
	encoder.ByteOrder = binary.BigEndian
	encoder.String(unix.NFTA_TABLE_NAME, tableName)
	if attributes != nil {
		attributes(encoder)
	}
	encoded, err := encoder.Encode()
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("encode nftables message %d: %w", kind, err)
	}
	t.statements = append(t.statements, statement{Message: message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, unix.NFPROTO_INET, 0, encoded)})
}

// message is one of netfilter's, with its header. (struct nfgenmsg, linux/netfilter/nfnetlink.h.)
func message(kind uint16, flags netlink.HeaderFlags, family byte, resource uint16, attributes []byte) netlink.Message {
	header := binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | flags},
		Data:   append(header, attributes...),
	}
}

// patience is how long the kernel may take to answer. It has answered when a message is sent; nobody should wait for ever if it did not.
const patience = 10 * time.Second

// commit makes the change, in the namespace of the calling thread.
func (t *transaction) commit() error {
	messages := t.messages()
	if t.err != nil || len(messages) == 0 {
		return t.err
	}
	// Told of every message, the kernel could have more to say than the socket can hold. The last one's success is that of all,
	// and what fails is told in any case, in the order of the messages.
	messages[len(messages)-1].Header.Flags |= netlink.Acknowledge
	batch := []netlink.Message{message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)}
	batch = append(batch, messages...)
	batch = append(batch, message(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil))

	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	defer conn.Close()
	// A batch is one datagram, however large; and each byte of it counts once more for the kernel's own needs.
	if err := conn.SetWriteBuffer(max(leastBuffer, 2*size(batch))); err != nil {
		return fmt.Errorf("make room for nftables messages: %w", err)
	}
	// Says what is wrong in words where it can. Not every kernel knows how.
	_ = conn.SetOption(netlink.ExtendedAcknowledge, true)
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("bound nftables' answer: %w", err)
	}
	if _, err := conn.SendMessages(batch); err != nil {
		return fmt.Errorf("send nftables messages: %w", err)
	}
	if _, err := conn.Receive(); err != nil {
		return fmt.Errorf("change nftables: %w", err)
	}
	return nil
}

// leastBuffer is in bytes; Linux gives a socket as much.
const leastBuffer = 208 << 10

// size is in bytes.
func size(messages []netlink.Message) (sum int) {
	for _, m := range messages {
		sum += unix.NLMSG_HDRLEN + len(m.Data) + unix.NLMSG_ALIGNTO
	}
	return sum
}

// replaceTable begins with an empty table.
func (t *transaction) replaceTable(upon before) {
	t.say(unix.NFT_MSG_NEWTABLE, netlink.Create, nil)
	if upon == something {
		// A table that is not there cannot be deleted; one that is made twice is made once. Whoever deletes waits in the
		// end until nobody can be reading any more what was there (for some 15 ms).
		t.say(unix.NFT_MSG_DELTABLE, 0, nil)
		t.say(unix.NFT_MSG_NEWTABLE, netlink.Create, nil)
	}
}

// hook is where a chain begins, and what becomes of packets at its end. (Numbers: linux/netfilter.h, linux/netfilter_ipv4.h.)
type hook struct {
	kind     nftables.ChainType
	point    *nftables.ChainHook
	priority nftables.ChainPriority
	policy   expr.VerdictKind
}

// base adds a chain that the kernel calls.
func (t *transaction) base(name string, h hook) {
	t.say(unix.NFT_MSG_NEWCHAIN, netlink.Create, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_CHAIN_NAME, name)
		e.Nested(unix.NFTA_CHAIN_HOOK, func(e *netlink.AttributeEncoder) error {
			e.Uint32(unix.NFTA_HOOK_HOOKNUM, uint32(*h.point))
			e.Int32(unix.NFTA_HOOK_PRIORITY, int32(h.priority))
			return nil
		})
		e.Uint32(unix.NFTA_CHAIN_POLICY, uint32(h.policy))
		e.String(unix.NFTA_CHAIN_TYPE, string(h.kind))
	})
}

// chain adds chains that rules lead to.
func (t *transaction) chain(names ...string) {
	for _, name := range names {
		t.say(unix.NFT_MSG_NEWCHAIN, netlink.Create, func(e *netlink.AttributeEncoder) { e.String(unix.NFTA_CHAIN_NAME, name) })
	}
}

// rule adds a rule to the end of a chain: its words are judged one after the other.
func (t *transaction) rule(chain string, rule ...words) {
	t.say(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_RULE_CHAIN, chain)
		e.Nested(unix.NFTA_RULE_EXPRESSIONS, func(e *netlink.AttributeEncoder) error {
			for _, words := range rule {
				for _, word := range words {
					encoded, err := expr.Marshal(unix.NFPROTO_INET, word)
					if err != nil {
						return fmt.Errorf("rule of %s: %w", chain, err)
					}
					e.Bytes(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, encoded)
				}
			}
			return nil
		})
	})
	// The sets of its own came right before it.
	for i := len(t.statements) - 1; i >= 0 && (i == len(t.statements)-1 || t.statements[i].chain == nextRule); i-- {
		t.statements[i].chain = chain
	}
}

// nextRule stands for the chain of the next rule.
const nextRule = "?"

// both adds a rule for each family of addresses.
func (t *transaction) both(chain string, rule func(f family) []words) {
	for _, f := range both {
		t.rule(chain, rule(f)...)
	}
}
