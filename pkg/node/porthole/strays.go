package porthole

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// List returns the portholes of which anything is there, be it half of one: a link or a namespace.
func (k *Keeper) List() ([]ID, error) {
	links, err := listLinks()
	if err != nil {
		return nil, err
	}
	found := map[ID]bool{}
	for _, link := range links {
		if id, has := idIn(link.Attrs().Name); has && isOurs(link) {
			found[id] = true
		}
	}
	names, err := listNetns()
	for _, name := range names {
		if id, has := idIn(name); has {
			found[id] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), err
}

// Exists reports whether List would find a porthole.
func (k *Keeper) Exists(id ID) (bool, error) {
	for _, name := range []string{id.Name(), id.HostLink()} {
		if link, err := netdev.Find(name); err != nil || link != nil && isOurs(link) {
			return err == nil, err
		}
	}
	_, err := os.Lstat(id.NetnsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Remove removes a porthole with all that it has: its links, routes and namespace. That there is none is no error. The
// bridge must have let go of the link.
func (k *Keeper) Remove(id ID) error {
	k.forget(id)
	var failed []error
	// The routes to the faces go with the link.
	for _, name := range []string{id.Name(), id.HostLink()} {
		failed = append(failed, removeLink(name))
	}
	// Last: what is found by its namespace is not forgotten half removed.
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return removeNetns(id.NetnsPath())
}

// listLinks are the links in the namespace of the calling thread.
func listLinks() ([]netlink.Link, error) {
	links, err := netlinksafe.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return links, nil
}
