package inspected

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// Held is what a controller holds of the world.
func (w *World) Held() snapshot.Held {
	return snapshot.Held{Objects: w.Objects, Default: w.Settings.Network, Status: func(name, _ string) (atoll.NetworkStatus, bool) {
		shown, known := w.Statuses[name]
		s := atoll.NetworkStatus{Phase: atoll.NetworkPhase(shown.Phase), Pods: shown.Pods, Subnets: []atoll.SubnetStatus{
			{Name: "front", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", Used: shown.Pods, Free: 252 - shown.Pods},
			{Name: "back", CIDR: "10.0.1.0/24", Gateway: "10.0.1.1", Free: 252},
		}}
		s.Conditions = []meta.Condition{{Type: "Ready", Status: meta.ConditionTrue, Reason: "Ready", Message: "pods may attach"}}
		if s.Phase != atoll.NetworkReady {
			s.Conditions[0].Status, s.Conditions[0].Reason, s.Conditions[0].Message = meta.ConditionFalse,
				"SubnetsInvalid", "10.0.1.0/24 of subnet \"back\" overlaps 10.0.0.0/16"
		}
		if name == "red" {
			s.Isolation = &atoll.Isolation{Overall: "soft"}
			s.Compatibility = []atoll.CompatibilityStatus{{Network: "blue", Direction: atoll.CompatibilityServes, Mode: "ByFace", State: "Active"}}
		}
		return s, known
	}}
}

// Databases answers as both databases would.
type Databases struct {
	*World
	// Down is the error of every question.
	Down error
}

// Select implements Selector.
func (d Databases) Select(_ context.Context, selects ...ovsdb.Operation) ([][]ovsdb.Row, error) {
	out := make([][]ovsdb.Row, len(selects))
	for i, op := range selects {
		where := op.Where[0]
		switch op.Table {
		case snapshot.TableBinding:
			if b, there := d.Bindings[fmt.Sprint(where.Value)]; there {
				out[i] = []ovsdb.Row{{"up": b.Up, "chassis": ovsdb.OvsSet{GoSet: []any{}}}}
				if b.Chassis != "" {
					out[i][0]["chassis"] = ovsdb.UUID{GoUUID: b.Chassis}
				}
			}
		case snapshot.TableChassis:
			name := where.Value.(ovsdb.UUID).GoUUID
			out[i] = []ovsdb.Row{{"name": name, "hostname": name}}
		default:
			for _, row := range d.Rows {
				if row.Table().String() == op.Table && drift.ColumnValue(row, "name").String() == where.Value {
					set := ovsdb.OvsSet{}
					for _, v := range drift.ColumnValue(row, op.Columns[0]).Interface().([]string) {
						set.GoSet = append(set.GoSet, v)
					}
					out[i] = append(out[i], ovsdb.Row{op.Columns[0]: set})
				}
			}
		}
	}
	return out, d.Down
}

// Object is a pod as the API server has it once its kubelet has started it.
func (w *World) Object(key model.PodKey) *core.Pod {
	p := w.Objects.Pods[key]
	text, err := json.Marshal(p.Assigned)
	if err != nil {
		w.T.Fatal(err)
	}
	out := &core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: types.UID(p.UID),
			Annotations: map[string]string{model.AnnotationAttachments: string(text)}, Labels: map[string]string{},
		},
		Spec:   core.PodSpec{NodeName: p.Node},
		Status: core.PodStatus{Phase: core.PodRunning, Conditions: []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}}},
	}
	if p.Network != "" {
		out.Labels[model.LabelNetwork] = p.Network
	}
	for _, a := range p.Assigned {
		for _, face := range a.Faces {
			out.Status.PodIPs = append(out.Status.PodIPs, core.PodIP{IP: face.String()})
		}
	}
	return out
}

func InspectedWorld(t testing.TB) *World {
	t.Helper()
	w := NewWorld(t)
	for _, p := range w.Objects.Pods {
		p.Assigned[0].Faces = []netip.Addr{
			netip.MustParseAddr(fmt.Sprintf("100.64.%d.%s", len(p.Key.Namespace), strings.TrimPrefix(p.Key.Name, "web-"))),
		}
	}
	for _, node := range []string{"n1", "n2"} {
		w.Objects.Nodes[node] = &model.Node{Name: node, UID: node}
		w.Objects.Reports[node] = &model.NodeReport{Node: node, NodeUID: node, Version: "v0.1.0"}
	}
	key := model.ServiceKey{Namespace: "red", Name: "web"}
	pod := w.Objects.Pods[model.PodKey{Namespace: "red", Name: "web-0"}]
	w.Objects.Services[key] = &model.Service{
		Key: key, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, Assigned: &model.ServiceAddresses{
			Network: "red", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.10")},
		},
	}
	slice := model.SliceKey{Namespace: "red", Name: "web-1"}
	w.Objects.Slices[slice] = &model.Slice{
		Key: slice, Service: "web", Endpoints: []model.Endpoint{{Pod: pod.Key, PodUID: pod.UID, Ready: true}},
	}
	policy := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "closed"}
	w.Objects.Policies[policy] = &model.Policy{
		Key: policy, Tier: model.TierTenant, Subject: match.Pods{Namespace: "red"}, Isolates: [2]bool{true, false},
	}
	// A user labels the namespace intruder with a Network that does not admit it.
	w.Objects.Networks["blue"].Tenant = "them"
	w.Objects.Namespaces["blue"].Labels[model.LabelTenant] = "them"
	w.Objects.Namespaces["intruder"] = &model.Namespace{Name: "intruder", Labels: map[string]string{model.LabelNetwork: "blue"}}
	return w
}

// HeldOf is what a controller holds of a world, with what Networks' status tells of each other.
func (w *World) HeldOf() snapshot.Held {
	peers := compatible.New(Explained().Compatible())
	for name, n := range w.Objects.Networks {
		peers.Set(name, n)
	}
	return snapshot.Held{Objects: w.Objects, Default: "default", Status: func(name, _ string) (s atoll.NetworkStatus, known bool) {
		all, _ := peers.Statuses(name)
		for _, c := range all {
			s.Compatibility = append(s.Compatibility, atoll.CompatibilityStatus{Network: c.Network, State: string(c.State)})
		}
		return s, true
	}}
}
