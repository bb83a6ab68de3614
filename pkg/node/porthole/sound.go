package porthole

import (
	"fmt"
	"slices"

	"github.com/google/nftables"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// Sound reports whether what the kernel takes away along with something else, and what others on a node remove by the way, is
// there as it was last made: the node's links to the bridge and their addresses, the routes to the default Network and to faces,
// and the tables of rules. The kernel drops a route with the address that is its source, and with its link. It takes some lists
// of the kernel's, however many portholes there are.
func (k *Keeper) Sound() (bool, error) {
	k.mu.Lock()
	host, portholes := k.host, make([]Spec, 0, len(k.known))
	for _, last := range k.known {
		portholes = append(portholes, last.spec)
	}
	k.mu.Unlock()
	if !host.made {
		return true, nil
	}
	var out found
	links, err := listLinks()
	if err != nil {
		return false, err
	}
	index := map[string]int{}
	for _, link := range links {
		index[link.Attrs().Name] = link.Attrs().Index
		i := slices.IndexFunc(host.spec.cables(), func(c cable) bool { return c.inner == link.Attrs().Name })
		if i < 0 || len(host.spec.Addresses) == 0 {
			continue
		}
		downDiffers(link, "", &out)
		if err := addressesDiffer(link, host.spec.addressesOf(link), "", &out); err != nil {
			return false, err
		}
	}
	wanted, _, err := host.spec.routes()
	if err != nil {
		return false, err
	}
	for _, spec := range portholes {
		link, there := index[spec.id().HostLink()]
		if !there {
			return false, nil
		}
		wanted = append(wanted, k.faceRoutes(spec, spec.Pods, link)...)
	}
	if err := routesDiffer(wanted, func(route) bool { return false }, "", &out); err != nil {
		return false, err
	}
	tables, err := tablesHere()
	if err != nil {
		return false, err
	}
	for _, c := range host.spec.cables() {
		_, there := index[c.inner]
		if len(host.spec.Addresses) > 0 && !there {
			return false, nil
		}
	}
	return len(out) == 0 && slices.Contains(tables, tableName) && slices.Contains(tables, netdev.GuardTable), nil
}

func tablesHere() ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("use nftables: %w", err)
	}
	list, err := conn.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list tables of rules: %w", err)
	}
	var out []string
	for _, t := range list {
		out = append(out, t.Name)
	}
	return out, nil
}
