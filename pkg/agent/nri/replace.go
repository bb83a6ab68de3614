package nri

import (
	"net/netip"
	"strings"
)

// Pair is a face of a pod, and the own address of the same family that stands for it inside the pod.
type Pair struct{ Face, Own netip.Addr }

// replacer replaces faces in texts. The zero replacer changes nothing.
type replacer []replacement

type replacement struct {
	face, own string
	ipv4      bool
}

// newReplacer leaves out pairs that would change the family, or nothing.
func newReplacer(pairs []Pair) replacer {
	var r replacer
	for _, p := range pairs {
		if p.Face.IsValid() && p.Own.IsValid() && p.Face.Is4() == p.Own.Is4() && p.Face != p.Own {
			r = append(r, replacement{face: p.Face.String(), own: p.Own.String(), ipv4: p.Face.Is4()})
		}
	}
	return r
}

// replace returns the text with own addresses in place of faces. It reads the text once, so that an own address
// which looks like another face stays.
func (r replacer) replace(text string) string {
	var out strings.Builder
	done := 0
	for at := 0; at < len(text); {
		found, ok := r.at(text, at)
		if !ok {
			at++
			continue
		}
		out.WriteString(text[done:at])
		out.WriteString(found.own)
		at += len(found.face)
		done = at
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// at finds the face that begins at a byte of the text and is a whole address there.
func (r replacer) at(text string, at int) (replacement, bool) {
	for _, candidate := range r {
		rest, begins := strings.CutPrefix(text[at:], candidate.face)
		if begins && candidate.standsAlone(text[:at], rest) {
			return candidate, true
		}
	}
	return replacement{}, false
}

// standsAlone reports whether no part of an address touches the face on either side. Letters and other signs may: a
// reference like tcp://$(POD_IP):80 or node-$(POD_IP) puts them there. An IPv6 face next to a colon or a hexadecimal
// digit could be part of another address, and is then taken for that.
func (c replacement) standsAlone(before, after string) bool {
	touches := isDigit
	if !c.ipv4 {
		touches = isAddress6
	}
	last, next := byteFromEnd(before, 1), byteAt(after, 0)
	switch {
	case touches(last), touches(next):
		return false
	case last == '.' && isDigit(byteFromEnd(before, 2)), next == '.' && isDigit(byteAt(after, 1)):
		return false
	}
	return true
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isAddress6(b byte) bool {
	return isDigit(b) || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F' || b == ':'
}

// byteAt is the byte at an index, or 0 when the text ends before.
func byteAt(text string, i int) byte {
	if i >= len(text) {
		return 0
	}
	return text[i]
}

// byteFromEnd is the n-th byte from the end, or 0 when the text is shorter.
func byteFromEnd(text string, n int) byte {
	if n > len(text) {
		return 0
	}
	return text[len(text)-n]
}
