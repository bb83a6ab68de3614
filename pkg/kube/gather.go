package kube

import (
	"maps"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// gathered is one kind's newest values: those handed on or waiting to be, and the changes that wait. It holds
// nothing of what came and went before anybody took it: a standby may gather for weeks. Feed.mu guards it.
type gathered[K comparable, V any] struct {
	same   func(a, b *V) bool
	gone   func(*V) // told of each value that is dropped; may be nil
	known  map[K]*V
	waits  map[K]*V
	handed map[K]struct{} // what the taker believes to be there
	listed bool
}

func newGathered[K comparable, V any](same func(a, b *V) bool) *gathered[K, V] {
	return &gathered[K, V]{same: same, known: map[K]*V{}, waits: map[K]*V{}, handed: map[K]struct{}{}}
}

// set gathers a value, nil for one that has gone, and reports whether that is news.
func (g *gathered[K, V]) set(k K, v *V) bool {
	old, known := g.known[k]
	switch {
	case v == nil && !known:
		return false
	case v == nil:
		delete(g.known, k)
		if g.gone != nil {
			g.gone(old)
		}
		if _, handed := g.handed[k]; !handed {
			delete(g.waits, k)
			return false
		}
	case known && g.same(old, v):
		return false
	default:
		g.known[k] = v
	}
	g.waits[k] = v
	return true
}

// keepOnly drops what all does not hold.
func (g *gathered[K, V]) keepOnly(all map[K]*V) bool {
	news := false
	for k := range g.known {
		if _, there := all[k]; !there {
			news = g.set(k, nil) || news
		}
	}
	return news
}

func (g *gathered[K, V]) take() map[K]*V {
	out := g.waits
	g.waits = map[K]*V{}
	for k, v := range out {
		if v == nil {
			delete(g.handed, k)
		} else {
			g.handed[k] = struct{}{}
		}
	}
	return out
}

// The kubelet updates a pod's status many times in its life; samePod is what keeps that from the controller.
func samePod(a, b *model.Pod) bool {
	return a.Key == b.Key && a.UID == b.UID && a.Node == b.Node && a.Created.Equal(b.Created) &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Ports, b.Ports) &&
		a.Network == b.Network && a.NIC == b.NIC && a.NICError == b.NICError && a.Unwritable == b.Unwritable && a.Beyond == b.Beyond &&
		slices.Equal(a.Unknown, b.Unknown) &&
		slices.EqualFunc(a.Assigned, b.Assigned, sameAttachment)
}

func sameAttachment(a, b model.Attachment) bool {
	return a.PodUID == b.PodUID && a.Interface == b.Interface && a.Network == b.Network && a.NetworkUID == b.NetworkUID &&
		a.Subnet == b.Subnet && a.MAC == b.MAC &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Gateways, b.Gateways) && slices.Equal(a.Faces, b.Faces)
}

func sameNamespace(a, b *model.Namespace) bool {
	return a.Name == b.Name && a.UID == b.UID && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Unknown, b.Unknown)
}

// sameNetwork may be slow: Networks change rarely, but for their status, which model.Network does not hold.
func sameNetwork(a, b *model.Network) bool { return reflect.DeepEqual(a, b) }
