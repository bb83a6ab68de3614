package netdev

import (
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// Enter opens the network namespace of an interface of ours, at a path where it may be. It is that namespace, or an error: in it
// the interface is the other end of the node's. Whoever opened it closes it.
func Enter(owned Owned, path string) (ns.NetNS, error) {
	netns, err := ns.GetNS(path)
	if err != nil {
		return nil, fmt.Errorf("open the pod's network namespace: %w", err)
	}
	err = netns.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName(owned.Interface)
		if err != nil {
			return fmt.Errorf("find %s in the pod: %w", owned.Interface, err)
		}
		// An index is the node's alone, while that of the pod's end is as good as the same in every pod.
		if link.Attrs().ParentIndex != owned.Index {
			return differs("%s in the pod is not the other end of %s", owned.Interface, owned.HostName())
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, netns.Close())
	}
	return netns, nil
}
