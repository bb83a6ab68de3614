package netdev

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Dropped is how many packets each bound has dropped since it was set.
type Dropped map[Bound]uint64

// Bounded is what an interface's bounds are, and what they did.
type Bounded struct {
	Bounds
	Dropped Dropped
}

// ReadBounds reads the bounds of all interfaces of ours in a network namespace, by their names. One that was bounded by another edition of
// the rules has none.
func ReadBounds(netns string) (map[string]Bounded, error) {
	out := map[string]Bounded{}
	err := Post{Netns: netns}.inside(func() error {
		request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
		request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_NETDEV, Version: nl.NFNETLINK_V0})
		request.AddData(nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(boundsTable)))
		answers, err := request.Execute(unix.NETLINK_NETFILTER, 0)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			if err := readRule(answer[nl.SizeofNfgenmsg:], out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what interfaces may send: %w", err)
	}
	return out, nil
}

// readRule adds what a rule says, if it bounds something.
func readRule(encoded []byte, to map[string]Bounded) error {
	rule, err := attributesOf(encoded)
	if err != nil {
		return err
	}
	which, ours := strings.CutPrefix(string(rule[unix.NFTA_RULE_USERDATA]), edition)
	if !ours {
		return nil
	}
	device := nl.BytesToString(rule[unix.NFTA_RULE_CHAIN])
	bounded, seen := to[device]
	if !seen {
		bounded.Dropped = Dropped{}
	}
	words, err := nl.ParseRouteAttr(rule[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return err
	}
	for _, word := range words {
		expression, err := attributesOf(word.Value)
		if err != nil {
			return err
		}
		said, err := attributesOf(expression[unix.NFTA_EXPR_DATA])
		if err != nil {
			return err
		}
		switch nl.BytesToString(expression[unix.NFTA_EXPR_NAME]) {
		case "limit":
			*bounded.of(Bound(which)) = uint32(number(said[unix.NFTA_LIMIT_RATE]))
		case "counter":
			bounded.Dropped[Bound(which)] = number(said[unix.NFTA_COUNTER_PACKETS])
		}
	}
	to[device] = bounded
	return nil
}

// attributesOf are the attributes of a message, by their kinds.
func attributesOf(encoded []byte) (map[uint16][]byte, error) {
	list, err := nl.ParseRouteAttr(encoded)
	if err != nil {
		return nil, err
	}
	out := make(map[uint16][]byte, len(list))
	for _, a := range list {
		out[a.Attr.Type&nl.NLA_TYPE_MASK] = a.Value
	}
	return out, nil
}

// number is one of 64 bits, as nftables has them; 0 when there is none.
func number(encoded []byte) uint64 {
	if len(encoded) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(encoded)
}
