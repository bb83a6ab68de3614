package porthole

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

// readRule reads the expressions of a rule of the table, whose sets have been read.
func (t *shownTable) readRule(expressions []byte) (shownRule, error) {
	var key bytes.Buffer
	var text []string
	err := decode(expressions, func(d *netlink.AttributeDecoder) error {
		name, data := "", []byte(nil)
		err := decode(d.Bytes(), func(d *netlink.AttributeDecoder) error {
			switch d.Type() {
			case unix.NFTA_EXPR_NAME:
				name = d.String()
			case unix.NFTA_EXPR_DATA:
				data = d.Bytes()
			}
			return nil
		})
		if err != nil {
			return err
		}
		said, word, err := t.readExpression(name, data)
		fmt.Fprintf(&key, "%s %d %s", name, len(said), said)
		if word != "" {
			text = append(text, word)
		}
		return err
	})
	return shownRule{key.String(), strings.Join(text, " ")}, err
}

// readExpression is what an expression says, without what another one that does the same has otherwise; and a word for people.
func (t *shownTable) readExpression(name string, data []byte) (said, word string, err error) {
	switch name {
	case "counter":
		// What was counted is no part of the rule.
		return "", "", nil
	case "lookup", "dynset":
		attribute := uint16(unix.NFTA_LOOKUP_SET)
		if name == "dynset" {
			attribute = unix.NFTA_DYNSET_SET_NAME
		}
		var out strings.Builder
		err = decode(data, func(d *netlink.AttributeDecoder) error {
			if d.Type() != attribute {
				fmt.Fprintf(&out, "%d:%x ", d.Type(), d.Bytes())
				return nil
			}
			set := d.String()
			word = "@" + set
			if own := t.sets[set]; own != nil && own.anonymous() {
				// The number in its name is whichever was free.
				set, word = own.contents(), "{...}"
			}
			fmt.Fprintf(&out, "set %s ", set)
			return nil
		})
		return out.String(), word, err
	case "immediate":
		word, err = verdictIn(data)
		return string(data), word, err
	case "cmp", "bitwise":
		return string(data), textIn(data), nil
	}
	return string(data), name, nil
}

// anonymous: it is one rule's own, and has no name but a number.
func (s *shownSet) anonymous() bool { return s.flags&unix.NFT_SET_ANONYMOUS != 0 }

// contents are a set's kind and elements, in bytes that mean the same where they are the same.
func (s *shownSet) contents() string {
	lines := make([]string, 0, len(s.elements))
	for _, e := range s.elements {
		lines = append(lines, fmt.Sprintf("%x:%x:%t", e.key, e.value, e.end))
	}
	slices.Sort(lines)
	return s.kind + " {" + strings.Join(lines, ",") + "}"
}

// verdictIn is the verdict of an immediate expression, in a word; a value is none.
func verdictIn(data []byte) (word string, err error) {
	err = decode(data, func(d *netlink.AttributeDecoder) error {
		if d.Type() != unix.NFTA_IMMEDIATE_DATA {
			return nil
		}
		d.Nested(func(d *netlink.AttributeDecoder) error {
			for d.Next() {
				if d.Type() != unix.NFTA_DATA_VERDICT {
					continue
				}
				d.Nested(func(d *netlink.AttributeDecoder) error {
					for d.Next() {
						switch d.Type() {
						case unix.NFTA_VERDICT_CODE:
							word = verdictWord(int32(d.Uint32()))
						case unix.NFTA_VERDICT_CHAIN:
							word += " " + d.String()
						}
					}
					return d.Err()
				})
			}
			return d.Err()
		})
		return nil
	})
	return word, err
}

// verdictWord is nft's. (linux/netfilter.h, linux/netfilter/nf_tables.h.)
func verdictWord(code int32) string {
	switch code {
	case 0:
		return "drop"
	case 1:
		return "accept"
	case unix.NFT_RETURN:
		return "return"
	case unix.NFT_JUMP:
		return "jump"
	case unix.NFT_GOTO:
		return "goto"
	}
	return fmt.Sprint(code)
}

// textIn is a name, as that of an interface, among the bytes of an expression; empty when there is none.
func textIn(data []byte) string {
	for word := range strings.FieldsFuncSeq(string(data), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) {
		if len(word) > 3 {
			return `"` + word + `"`
		}
	}
	return ""
}

// texts are a set's elements in words for people, sorted: of ranges the prefix, where they are one.
func (s *shownSet) texts() []string {
	out := make([]string, 0, len(s.elements))
	if s.flags&unix.NFT_SET_INTERVAL == 0 {
		for _, e := range s.elements {
			text := s.text(e.key)
			if e.value != nil {
				text += " : " + s.text(e.value)
			}
			out = append(out, text)
		}
		slices.Sort(out)
		return out
	}
	ordered := slices.SortedFunc(slices.Values(s.elements), func(a, b shownElement) int {
		if order := bytes.Compare(a.key, b.key); order != 0 || a.end == b.end {
			return order
		}
		if a.end { // The one before ends where the next begins.
			return -1
		}
		return 1
	})
	for i := 0; i < len(ordered); i++ {
		begin, end := ordered[i], []byte(nil)
		if begin.end {
			// Of no range: the kernel may begin with one.
			continue
		}
		if i+1 < len(ordered) && ordered[i+1].end {
			end = ordered[i+1].key
			i++
		}
		out = append(out, rangeText(begin.key, end))
	}
	slices.Sort(out)
	return out
}

// rangeText is a range of addresses from one to before another; nil: to the last there is.
func rangeText(from, behind []byte) string {
	first, ok := netip.AddrFromSlice(from)
	if !ok {
		return fmt.Sprintf("%x-%x", from, behind)
	}
	last, ok := netip.AddrFromSlice(behind)
	if ok {
		last = last.Prev()
	} else {
		last, _ = netip.AddrFromSlice(bytes.Repeat([]byte{0xff}, len(from)))
	}
	r := netipx.IPRangeFrom(first, last)
	if prefix, is := r.Prefix(); is {
		return prefix.String()
	}
	return r.String()
}

// text is a key or a value in words.
func (s *shownSet) text(of []byte) string {
	names := s.holds == nftables.TypeIFName.GetNFTMagic() || len(of) == 2*unix.IFNAMSIZ
	address, is := netip.AddrFromSlice(of)
	switch {
	case names:
		var parts []string
		for part := range slices.Chunk(of, unix.IFNAMSIZ) {
			parts = append(parts, string(bytes.TrimRight(part, "\x00")))
		}
		return strings.Join(parts, " . ")
	case is:
		return address.String()
	case len(of) == 2:
		return fmt.Sprint(int(of[0])<<8 | int(of[1]))
	case len(of) == 8 || len(of) == 20:
		if address, is := netip.AddrFromSlice(of[:len(of)-4]); is {
			port := of[len(of)-4:]
			return netip.AddrPortFrom(address, uint16(port[0])<<8|uint16(port[1])).String()
		}
	}
	return fmt.Sprintf("%x", of)
}
