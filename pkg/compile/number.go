package compile

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/nb"
)

// Numbered is a switch or a router, and the number that it would ask for (nb.TunnelKey).
type Numbered struct{ UUID, Number string }

// Numbers are those of a Network's rows. What is made of its UID alone comes first: whoever names a subnet chooses the number of its switch.
func Numbers(l Layout) (out []Numbered) {
	var uuids []string
	if l.Home == nil {
		uuids = append(uuids, routerRef(l).UUID, edgeUUID(l))
	}
	for _, s := range l.Subnets {
		uuids = append(uuids, switchRef(l, s.Name).UUID)
	}
	for _, uuid := range uuids {
		out = append(out, Numbered{uuid, nb.TunnelKey(uuid)})
	}
	return out
}

// askForNumber has a switch or a router ask for its number, unless another one has it.
func (l Layout) askForNumber(config map[string]string, uuid string) {
	if !slices.Contains(l.Unnumbered, uuid) {
		config[nb.KeyTunnelKey] = nb.TunnelKey(uuid)
	}
}
