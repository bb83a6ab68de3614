package porthole

import (
	"errors"

	"github.com/google/nftables"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// Clear removes all portholes from the node, and the node's own side: links, routes and rules. That there is none is no error.
// Settings of the kernel that others use too, such as forwarding, stay.
func (k *Keeper) Clear() error {
	ids, err := k.List()
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range ids {
		failed = append(failed, k.Remove(id))
	}
	for _, c := range (Host{}).cables() {
		failed = append(failed, removeLink(c.outer))
	}
	failed = append(failed, setRoutes(nil, func(route) bool { return true }))
	// The rules go last: what is still there when something failed stays shut.
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return netdev.DeleteTable(nftables.TableFamilyINet, tableName)
}
