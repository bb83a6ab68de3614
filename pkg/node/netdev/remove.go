package netdev

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Delete removes the pair of an owner; that there is none is no error. A link of the same name that is not
// ours stays, with an error.
func Delete(owner Owner) error {
	link, err := Find(owner.HostName())
	if err != nil || link == nil {
		return err
	}
	// A crash may have come before the alias. Then the name, a hash of the container's, is proof enough.
	_, ours := ParseOwner(link.Attrs().Name, link.Attrs().Alias)
	if unmarked := link.Attrs().Alias == "" && link.Type() == "veth"; !ours && !unmarked {
		return fmt.Errorf("delete %s: it was not made by atoll (alias %q)", link.Attrs().Name, link.Attrs().Alias)
	}
	// By index, so that nothing else of the same name can be hit. A pod that ends at this moment takes the
	// pair with it.
	return deleteLink(link)
}

func deleteLink(link netlink.Link) error {
	if err := netlink.LinkDel(link); err != nil && !NotFound(err) {
		return fmt.Errorf("delete %s: %w", link.Attrs().Name, err)
	}
	return nil
}

// DeleteLink deletes a link in the namespace of the calling thread, whoever made it; that there is none is no error.
func DeleteLink(name string) error {
	link, err := Find(name)
	if err != nil || link == nil {
		return err
	}
	return deleteLink(link)
}

// Exists reports whether a link has the name.
func Exists(name string) (bool, error) {
	link, err := Find(name)
	return link != nil, err
}

// Find is a link in the namespace of the calling thread; nil when there is none.
func Find(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if NotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	return link, nil
}

// Owned is an interface of ours that exists on the node.
type Owned struct {
	Owner
	// Index grows with time: of two interfaces of one pod the higher is the newer.
	Index int
}

// List returns the interfaces of ours on the node.
func List() ([]Owned, error) {
	links, err := netlinksafe.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var owned []Owned
	for _, link := range links {
		attrs := link.Attrs()
		if !strings.HasPrefix(attrs.Name, Prefix) {
			continue
		}
		if owner, ours := ParseOwner(attrs.Name, attrs.Alias); ours {
			owned = append(owned, Owned{Owner: owner, Index: attrs.Index})
		}
	}
	return owned, nil
}

// NetnsGone reports whether a path leads to no network namespace any more. An empty path leads to none.
func NetnsGone(path string) bool {
	if path == "" {
		return true
	}
	err := ns.IsNSorErr(path)
	var missing ns.NSPathNotExistErr
	var other ns.NSPathNotNSErr
	return errors.As(err, &missing) || errors.As(err, &other)
}

// NotFound reports whether a link that was asked for is not there.
func NotFound(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing) || errors.Is(err, unix.ENODEV)
}
