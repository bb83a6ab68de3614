package porthole

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
)

// readRule reads the expressions of a rule of the table, whose sets have been read: without what another rule that does the same
// has otherwise, and in words for people.
func (t *shownTable) readRule(expressions []expr.Any) (out shownRule, err error) {
	var text []string
	for _, e := range expressions {
		kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "*expr."))
		word := kind
		switch e := e.(type) {
		case *expr.Counter:
			// What was counted is no part of the rule.
			*e, word = expr.Counter{}, ""
		case *expr.Lookup:
			e.SetName, word = t.setNamed(e.SetName)
		case *expr.Dynset:
			e.SetName, word = t.setNamed(e.SetName)
		case *expr.Verdict:
			word = verdictWord(e)
		case *expr.Cmp:
			word = textIn(e.Data)
		case *expr.Bitwise, *expr.Immediate:
			word = ""
		}
		said, err := json.Marshal(e)
		if err != nil {
			return out, fmt.Errorf("read expression %s: %w", kind, err)
		}
		out.key += kind + string(said)
		if word != "" {
			text = append(text, word)
		}
	}
	out.text = strings.Join(text, " ")
	return out, nil
}

// setNamed is what tells a set of the table from others, and a word for people.
func (t *shownTable) setNamed(name string) (same, word string) {
	if set := t.sets[name]; set != nil && set.Anonymous {
		// The number in its name is whichever was free.
		return set.contents(), "{...}"
	}
	return name, "@" + name
}

// kind is what the kernel says of a set but its elements.
func (s *shownSet) kind() string {
	set := *s.Set
	set.Table, set.Name, set.ID = nil, "", 0
	return fmt.Sprintf("%+v", set)
}

// contents are a set's kind and elements, in words that are the same where they mean the same.
func (s *shownSet) contents() string {
	lines := make([]string, 0, len(s.elements))
	for _, e := range s.elements {
		lines = append(lines, fmt.Sprintf("%x:%x:%t", e.Key, e.Val, e.IntervalEnd))
	}
	slices.Sort(lines)
	return s.kind() + " {" + strings.Join(lines, ",") + "}"
}

// verdictWord is nft's.
func verdictWord(v *expr.Verdict) string {
	switch v.Kind {
	case expr.VerdictDrop:
		return "drop"
	case expr.VerdictAccept:
		return "accept"
	case expr.VerdictReturn:
		return "return"
	case expr.VerdictJump:
		return "jump " + v.Chain
	case expr.VerdictGoto:
		return "goto " + v.Chain
	}
	return fmt.Sprint(v.Kind)
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
	if !s.Interval {
		for _, e := range s.elements {
			text := s.text(e.Key)
			if e.Val != nil {
				text += " : " + s.text(e.Val)
			}
			out = append(out, text)
		}
		slices.Sort(out)
		return out
	}
	ordered := slices.SortedFunc(slices.Values(s.elements), func(a, b nftables.SetElement) int {
		if order := bytes.Compare(a.Key, b.Key); order != 0 || a.IntervalEnd == b.IntervalEnd {
			return order
		}
		if a.IntervalEnd { // The one before ends where the next begins.
			return -1
		}
		return 1
	})
	for i := 0; i < len(ordered); i++ {
		begin, end := ordered[i], []byte(nil)
		if begin.IntervalEnd {
			// Of no range: the kernel may begin with one.
			continue
		}
		if i+1 < len(ordered) && ordered[i+1].IntervalEnd {
			end = ordered[i+1].Key
			i++
		}
		out = append(out, rangeText(begin.Key, end))
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
	names := s.KeyType.GetNFTMagic() == nftables.TypeIFName.GetNFTMagic() || len(of) == 2*unix.IFNAMSIZ
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
