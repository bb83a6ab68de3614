package nri

import (
	"net/netip"
	"slices"
	"strings"
)

// aliasesHeader is the comment by which kubelet begins what the pod's spec.hostAliases ask for.
const aliasesHeader = "# Entries added by HostAliases"

// ownHosts returns the content of kubelet's hosts file with own addresses in place of faces (hosts(5): a line is an
// address and its names). The aliases are the user's words and stay as they are.
func ownHosts(content string, pairs []Pair) string {
	var out strings.Builder
	out.Grow(len(content))
	aliases := false
	for line := range strings.Lines(content) {
		aliases = aliases || strings.HasPrefix(line, aliasesHeader)
		end := strings.IndexAny(line, " \t\r\n")
		if end < 0 {
			end = len(line)
		}
		address := line[:end]
		if own, is := ownOf(address, pairs); is && !aliases {
			address = own.String()
		}
		out.WriteString(address)
		out.WriteString(line[end:])
	}
	return out.String()
}

// ownOf is the own address for the text of a face.
func ownOf(text string, pairs []Pair) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	i := slices.IndexFunc(pairs, func(p Pair) bool { return p.Face == address })
	if i < 0 || !pairs[i].Own.IsValid() {
		return netip.Addr{}, false
	}
	return pairs[i].Own, true
}
