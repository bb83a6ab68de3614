package porthole

import (
	"crypto/sha256"
	"encoding/base32"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// netnsDir is where named network namespaces are, for `ip netns` and everybody else.
const netnsDir = "/var/run/netns"

// hostPrefix begins the name of the node's end of a porthole's link to the node, and of nothing else. It differs from
// netdev.Prefix, whose interfaces the node takes nothing from.
const hostPrefix = "atollh-"

// idLength is the length of an ID: 40 bits in base32, as many as fit into an interface's name.
const idLength = 8

// ID is the part that all names of a porthole have in common.
type ID string

// IDOf follows from the UID of a Network alone.
func IDOf(networkUID string) ID {
	sum := sha256.Sum256([]byte(networkUID))
	code := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	return ID(strings.ToLower(code[:idLength]))
}

// Name is the name of the porthole's network namespace, and of the interface in the node's namespace by which the bridge
// reaches it. Interfaces of pods have a longer name.
func (id ID) Name() string { return netdev.Prefix + string(id) }

// HostLink is the name of the node's interface to the porthole.
func (id ID) HostLink() string { return hostPrefix + string(id) }

// NetnsPath is the path of the porthole's network namespace.
func (id ID) NetnsPath() string { return filepath.Join(netnsDir, id.Name()) }

// idIn finds the ID in a name of one of the three forms; false when there is none.
func idIn(name string) (ID, bool) {
	for _, prefix := range []string{netdev.Prefix, hostPrefix} {
		if id, has := strings.CutPrefix(name, prefix); has && len(id) == idLength {
			return ID(id), true
		}
	}
	return "", false
}

// The interfaces inside a porthole.
const (
	// networkSide is the link to the Network's router.
	networkSide = "ovn0"
	// hostSide is the link to the node.
	hostSide = "host0"
)

// aliasWord begins the alias of a porthole's links in the node's namespace; the Network's UID follows, and its name for
// people.
const aliasWord = "atoll-porthole"

// nodeAlias is the alias of the node's own links to the bridge.
const nodeAlias = "atoll-node"

func alias(spec Spec) string { return aliasWord + " " + spec.UID + " " + spec.Network }

// isOurs reports whether a link in the node's namespace, of a name of ours, was made by us. A crash may have come before
// the alias: then the name, which is a hash, is proof enough.
func isOurs(link netlink.Link) bool {
	attrs := link.Attrs()
	if attrs.Alias == "" {
		return link.Type() == "veth"
	}
	if attrs.Alias == nodeAlias {
		return attrs.Name == NodePort || attrs.Name == EdgePort
	}
	fields := strings.Split(attrs.Alias, " ")
	if len(fields) != 3 || fields[0] != aliasWord {
		return false
	}
	id := IDOf(fields[1])
	return attrs.Name == id.Name() || attrs.Name == id.HostLink()
}

// NetworkAt is the Network whose porthole a link in the node's namespace leads to, and whether it is the one of the node; false
// where it leads to none.
func NetworkAt(link netlink.Link) (network string, ofNode, ok bool) {
	fields := strings.Split(link.Attrs().Alias, " ")
	if !isOurs(link) || len(fields) != 3 {
		return "", false, false
	}
	return fields[2], strings.HasPrefix(link.Attrs().Name, hostPrefix), true
}
