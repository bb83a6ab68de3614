package kube

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// nodeWorkers is how many writes to nodes run at once: only a cluster that starts has many.
const nodeWorkers = 4

type nodeOf struct {
	uid     string
	network model.NodeNetwork
}

// WriteNode writes on the Node with that UID what it has of the cluster's network.
func (w *Writer) WriteNode(name, uid string, n model.NodeNetwork) {
	w.nodes.put(name, nodeOf{uid: uid, network: n}, 0)
}

func (w *Writer) patchNode(ctx context.Context, name string, want nodeOf) error {
	body, err := nodePatch(want.uid, want.network)
	if err != nil {
		return err
	}
	t := target{client: w.clients.core.RESTClient(), resource: "nodes", name: name, uid: want.uid}
	r := t.patch(types.MergePatchType, "", body).SetHeader("Accept", acceptMetadata)
	return t.outcome(ctx, r.Do(ctx).Error())
}

// nodePatch is the body of the merge patch (RFC 7386) that sets AnnotationNode. The UID in it makes the API server
// refuse a later Node of the same name.
func nodePatch(uid string, n model.NodeNetwork) ([]byte, error) {
	type metadata struct {
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	}
	var patch struct {
		Metadata metadata `json:"metadata"`
	}
	patch.Metadata = metadata{UID: uid, Annotations: map[string]string{model.AnnotationNode: intake.NodeAnnotation(n)}}
	return json.Marshal(patch)
}

// NodeEvent tells the cluster's operator what is wrong with a node; see PodEvent.
func (w *Writer) NodeEvent(name, uid string, p model.Problem) {
	w.events.warn(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(uid)}, p)
}

func nodeKey(_, name string) string { return name }

// trimNode removes what intake.Node does not read.
func trimNode(n *corev1.Node) {
	n.ManagedFields = nil
	n.Spec = corev1.NodeSpec{}
	n.Status = corev1.NodeStatus{Addresses: n.Status.Addresses}
}

// A kubelet reports its node's conditions again and again; sameNode is what keeps that from the controller.
func sameNode(a, b *model.Node) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Created.Equal(b.Created) &&
		maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Addresses, b.Addresses) && sameNodeNetwork(a.Assigned, b.Assigned)
}

// sameReport may be slow: nodes' addresses change rarely.
func sameReport(a, b *model.NodeReport) bool { return reflect.DeepEqual(a, b) }

func sameNodeNetwork(a, b *model.NodeNetwork) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.NodeUID == b.NodeUID && a.Network == b.Network && a.NetworkUID == b.NetworkUID && a.MAC == b.MAC &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Gateways, b.Gateways) && slices.Equal(a.Flat, b.Flat) && slices.Equal(a.Faces, b.Faces)
}
