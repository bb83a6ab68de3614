package netdev

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Prefix begins the name of every interface of ours that is the bridge's: the node's own stack takes nothing that
// comes in there (Guard). The node's ends of pods' interfaces have it, and those of portholes and of the node itself.
const Prefix = "atoll-"

// product begins every alias of ours.
const product = "atoll"

// maxAlias is the longest alias of a link, in bytes (IFALIASZ in linux/if.h, less the final zero).
const maxAlias = 255

// HostName is the name of the node's end of a container's interface: Prefix and 45 bits of a hash, together
// the 15 characters that Linux allows.
func HostName(containerID, iface string) string {
	sum := sha256.Sum256([]byte(containerID + "\x00" + iface))
	code := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	return Prefix + strings.ToLower(code[:9])
}

// Owner says for whom an interface was made. Its alias is kept on the node's end of the pair, so that the
// proof lives exactly as long as the interface.
type Owner struct {
	ContainerID string
	Interface   string
	PodUID      string
	// Netns is the path of the container's network namespace; empty when it did not fit.
	Netns string
}

// HostName is the name of the node's end.
func (o Owner) HostName() string { return HostName(o.ContainerID, o.Interface) }

// Alias is the owner as one line. A network namespace that makes it too long is left out.
func (o Owner) Alias() string {
	alias := fmt.Sprintf("%s %s %s %s", product, o.ContainerID, o.Interface, o.PodUID)
	if whole := alias + " " + o.Netns; o.Netns != "" && len(whole) <= maxAlias && !strings.ContainsAny(o.Netns, " \n") {
		return whole
	}
	return alias
}

// ParseOwner reads the alias of a link. It is not ours unless its name follows from the alias.
func ParseOwner(name, alias string) (Owner, bool) {
	fields := strings.Split(alias, " ")
	if len(fields) < 4 || len(fields) > 5 || fields[0] != product {
		return Owner{}, false
	}
	owner := Owner{ContainerID: fields[1], Interface: fields[2], PodUID: fields[3]}
	if len(fields) == 5 {
		owner.Netns = fields[4]
	}
	return owner, owner.ContainerID != "" && owner.Interface != "" && owner.HostName() == name
}
