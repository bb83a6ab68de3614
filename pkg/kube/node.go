package kube

import (
	"context"
	"maps"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// nodeWorkers is how many writes to nodes run at once: only a cluster that starts has many.
const nodeWorkers = 4

// WriteNode writes on the Node with that UID what it has of the cluster's network.
func (w *Writer) WriteNode(name, uid string, n model.NodeNetwork) {
	w.nodes.put(name, decided[model.NodeNetwork]{uid, n}, 0)
}

func (w *Writer) patchNode(ctx context.Context, name string, want decided[model.NodeNetwork]) error {
	t := target{client: w.clients.core.RESTClient(), resource: "nodes", name: name, uid: want.uid}
	return t.annotate(ctx, "", nodeAnnotations(want.value))
}

func nodeAnnotations(n model.NodeNetwork) map[string]string {
	return map[string]string{model.AnnotationNode: intake.NodeAnnotation(n)}
}

// A kubelet reports its node's conditions again and again; sameNode is what keeps that from the controller.
func sameNode(a, b *model.Node) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Gone == b.Gone && a.Created.Equal(b.Created) &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Addresses, b.Addresses) && sameNodeNetwork(a.Assigned, b.Assigned)
}

func sameNodeNetwork(a, b *model.NodeNetwork) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.NodeUID == b.NodeUID && a.Network == b.Network && a.NetworkUID == b.NetworkUID && a.MAC == b.MAC &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Gateways, b.Gateways) && slices.Equal(a.Flat, b.Flat) &&
		slices.Equal(a.Faces, b.Faces)
}
