package nb

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// KeyTunnelKey is the option of a Logical_Switch (other_config) and of a Logical_Router (options) that asks ovn-northd for a
// number of the datapath, and of a Logical_Switch_Port (options) that asks for a number in its switch. Nodes write both on each
// packet which they send each other: they alone say in which switch or router the packet goes on, and to which port. (ovn-nb(5),
// ovn-sb(5): tunnel_key of Datapath_Binding and of Port_Binding.)
const KeyTunnelKey = "requested-tnl-key"

// The numbers that are asked for are [minTunnelKey, maxTunnelKey). ovn-northd hands out those from 1 on by itself, and the last
// 65,536 of the 24 bits belong to what several clusters have in common; so neither is ever one of these.
const (
	minTunnelKey = 1 << 16
	maxTunnelKey = 1<<24 - 1<<16
)

// TunnelKey is the number that the datapath of a switch or router asks for, made of the row's UUID. A southbound database that is
// made anew has the same number for it: a node that still has the flows of before does not send one Network's packets to
// another's pods on a node that has the new ones.
//
// Of two rows that ask for the same, one chance in 16,646,144 where nobody has chosen it, ovn-northd gives it to one, whichever,
// and numbers the other by itself. So only one of them asks.
func TunnelKey(uuid string) string {
	sum := sha256.Sum256([]byte(uuid))
	return strconv.FormatUint(minTunnelKey+binary.BigEndian.Uint64(sum[:])%(maxTunnelKey-minTunnelKey), 10)
}
