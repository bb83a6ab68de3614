// Package ledger holds every pool of addresses: who has which, and who waits for one. Holders are the owners of rows, never
// texts.
package ledger

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Pool gives out the addresses of one CIDR.
type Pool = alloc.Pool[nb.Owner]

// Ranges give each owner at most one address of each IP family.
type Ranges = alloc.Ranges[nb.Owner]

// NewPool makes the pool of a CIDR without what is reserved. Its error says why no pool can serve the CIDR.
func NewPool(cidr netip.Prefix, reserved []model.AddrRange) (*Pool, error) {
	return alloc.New[nb.Owner](cidr, reserved)
}

// NewRanges makes the pools of ranges, at most one per IP family, without what is reserved. Its error says why no pool can serve
// one.
func NewRanges(ranges []netip.Prefix, reserved ...model.AddrRange) (*Ranges, error) {
	return alloc.NewRanges[nb.Owner](ranges, reserved...)
}

// Pod is a pod as a holder, and PodOf the pod that a holder is; false when it is none.
func Pod(key model.PodKey) nb.Owner { return nb.PodOwner(key.Namespace, key.Name) }

// PodOf is the pod that a holder is; false when it is none.
func PodOf(holder nb.Owner) (model.PodKey, bool) {
	return model.PodKey{Namespace: holder.Namespace, Name: holder.Name}, holder.Kind == nb.KindPod
}

// Describe names a holder to the owner of another object.
func Describe(holder nb.Owner) string {
	switch holder.Kind {
	case nb.KindPod:
		return "pod " + holder.Namespace + "/" + holder.Name
	case nb.KindNode:
		return "node " + holder.Name
	}
	return holder.String()
}

// List names addresses or ranges.
func List[T fmt.Stringer](list []T) string {
	words := make([]string, 0, len(list))
	for _, x := range list {
		words = append(words, x.String())
	}
	return strings.Join(words, ", ")
}
