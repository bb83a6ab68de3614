package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// told is what the API server says beside the objects that a feed holds. Its zero value knows nothing.
type told struct {
	// silent are the nodes whose kubelet has not been heard of, and how Kubernetes says it.
	silent map[string]string
	// warning is the newest Event on a pod that warns; empty when there is none, or nobody may say.
	warning func(model.PodKey) string
}

// toldBy asks the API server. What it does not tell is not known, and nothing is said of it.
func toldBy(ctx context.Context, client kubernetes.Interface) told {
	out := told{silent: map[string]string{}, warning: func(key model.PodKey) string { return newestWarning(ctx, client, key) }}
	nodes, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return out
	}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			// Unknown is what Kubernetes says itself when it hears nothing; False the kubelet says.
			if c.Type == core.NodeReady && c.Status == core.ConditionUnknown {
				out.silent[n.Name] = fmt.Sprintf("Kubernetes has heard nothing of it since %s (%s)", c.LastTransitionTime.UTC().Format("15:04:05 MST"),
					c.Reason)
			}
		}
	}
	return out
}

func newestWarning(ctx context.Context, client kubernetes.Interface, key model.PodKey) string {
	pod, err := client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, meta.GetOptions{})
	if err != nil {
		return ""
	}
	events, err := snapshot.Warnings(ctx, client, pod)
	if err != nil || len(events) == 0 {
		return ""
	}
	// Those that know of the network say more than the kubelet, who says that it failed.
	at := max(0,
		slices.IndexFunc(events, func(e core.Event) bool { return strings.HasPrefix(e.Source.Component+e.ReportingController, "atoll-") }))
	return events[at].Reason + ": " + strings.Join(strings.Fields(events[at].Message), " ")
}

// awake looks whether a node is there at all; else the way ends.
func (e *explainer) awake(way *Way, p *party) bool {
	silence, silent := e.told.silent[p.node]
	if !silent {
		return true
	}
	way.stop(Hop{
		Layer: LayerNode, Node: p.node, Network: p.network, What: fmt.Sprintf("node %s, where %s is, is away: %s", p.node, p, silence),
		Next: fmt.Sprintf("bring the machine back, or its kubelet: kubectl describe node %s; what it still does for packets is not known",
			p.node),
	})
	return false
}

// because is the newest warning of a pod, as the end of a sentence.
func (e *explainer) because(p *party) string {
	if e.told.warning == nil {
		return ""
	}
	if w := e.told.warning(p.pod); w != "" {
		return "; its newest Event says " + w
	}
	return ""
}
