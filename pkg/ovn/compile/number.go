package compile

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Numbered is a switch or a router, and the number that it would ask for (nb.TunnelKey). Subnet is the one whose switch it is;
// empty for what is made of the Network's UID alone.
type Numbered struct{ UUID, Number, Subnet string }

// Numbers are those of a Network's rows. What is made of its UID alone comes first: whoever names a subnet chooses the number of
// its switch.
func Numbers(l Layout) (out []Numbered) {
	if l.Home == nil {
		for _, uuid := range []string{routerRef(l).UUID, edgeUUID(l)} {
			out = append(out, Numbered{UUID: uuid, Number: nb.TunnelKey(uuid)})
		}
	}
	for _, s := range l.Subnets {
		uuid := switchRef(l, s.Name).UUID
		out = append(out, Numbered{uuid, nb.TunnelKey(uuid), s.Name})
	}
	return out
}

// askForNumber has a switch or a router ask for its number, unless another one has it.
func (l Layout) askForNumber(config map[string]string, uuid string) {
	if !slices.Contains(l.Unnumbered, uuid) {
		config[nb.KeyTunnelKey] = nb.TunnelKey(uuid)
	}
}
