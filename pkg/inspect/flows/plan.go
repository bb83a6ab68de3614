package flows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
)

// MaxNodes bounds the nodes that are asked for flows. Nodes with pods that the question is about come first.
const MaxNodes = 512

// OffError says that no flows are sampled for the question.
type OffError struct {
	// Network is not sampled, while others may be. If it is empty, none is sampled.
	Network string
}

// Error implements error.
func (e *OffError) Error() string {
	if e.Network != "" {
		return fmt.Sprintf(
			"flows of Network %s are not sampled: flows.networks of the AtollConfig names others. Next, for who administers the cluster: "+
				"kubectl edit atollconfig cluster", e.Network)
	}
	return `flows are not sampled: flows.sampling of the AtollConfig is Off. Next, for who administers the cluster: kubectl patch atollconfig cluster --type=merge -p '{"spec":{"flows":{"sampling":"On"}}}'`
}

// Question asks for flows. The caller has already checked that the asker may see them.
type Question struct {
	// FlowQuestion is sent to each node.
	model.FlowQuestion
	// Pod selects flows with this pod at either end; the zero value selects all. Nodes are not asked for it: they know only the pod at
	// which a flow was judged.
	Pod model.PodKey
}

// Sight says what the asker may see at the other ends of flows. If a function is nil, the asker may see everything. If it returns
// an error, the asker sees nothing there.
type Sight struct {
	// Network reports whether the asker may see the holders of a Network's addresses. Namespace reports whether the asker may see the
	// pods and Services of a namespace.
	Network, Namespace func(name string) (bool, error)
}

// Plan says how to answer a question about flows, as the cluster is now.
type Plan struct {
	// Nodes are the nodes to ask, near ones first. Skipped counts those left out.
	Nodes   []snapshot.AgentNode
	Skipped int
	// Question is sent to each node.
	Question model.FlowQuestion
	// Whose has the UIDs of the Networks and namespaces in the question. When they change, objects were made anew under the same
	// names, and following ends.
	Whose string

	names *flowNames
	pod   string
	// begun has the creation times of these Networks and namespaces. Earlier flows belong to former objects of the same names.
	begun map[string]time.Time
}

// NewPlan plans the answer to a question about flows. Its error is an OffError when nothing is sampled, and a
// question.AbsentError when the question names an object that does not exist.
func NewPlan(ctx context.Context, s snapshot.Sources, q Question, sight Sight) (*Plan, error) {
	if s.Settings == nil {
		return nil, question.ErrNotRead
	}
	held, err := s.Held()
	if err != nil {
		return nil, err
	}
	settings, err := s.Settings()
	if err != nil {
		return nil, err
	}
	p := &Plan{begun: map[string]time.Time{}, Question: q.FlowQuestion}
	if q.Pod != (model.PodKey{}) {
		p.pod = q.Pod.String()
	}
	if err := p.whose(ctx, s, held, q); err != nil {
		return nil, err
	}
	if err := sampled(held, settings.Flows, q); err != nil {
		return nil, err
	}
	near := map[string]bool{}
	for key, pod := range held.Objects.Pods {
		a := held.Attachment(pod)
		if a != nil && (q.Networks == nil || slices.Contains(q.Networks, a.Network)) &&
			(q.Namespaces == nil || slices.Contains(q.Namespaces, key.Namespace)) {
			near[pod.Node] = true
		}
	}
	if err := p.nodes(ctx, s, near); err != nil {
		return nil, err
	}
	p.names = newFlowNames(held, settings, sight, near)
	return p, nil
}

// sampled returns an OffError unless flows are sampled for the question.
func sampled(held snapshot.Held, settings config.Flows, q Question) error {
	asked := slices.Clone(q.Networks)
	for _, namespace := range q.Namespaces {
		for key, pod := range held.Objects.Pods {
			if a := held.Attachment(pod); q.Networks == nil && key.Namespace == namespace && a != nil && !slices.Contains(asked, a.Network) {
				asked = append(asked, a.Network)
			}
		}
	}
	off := func(name string) bool { return len(settings.Networks) > 0 && !slices.Contains(settings.Networks, name) }
	switch {
	case !settings.On:
		return &OffError{}
	case len(asked) > 0 && !slices.ContainsFunc(asked, func(name string) bool { return !off(name) }):
		return &OffError{asked[0]}
	}
	return nil
}

// whose finds the UIDs and the creation times of the objects that the question names.
func (p *Plan) whose(ctx context.Context, s snapshot.Sources, held snapshot.Held, q Question) error {
	var ids []string
	for _, name := range q.Networks {
		n := held.Objects.Networks[name]
		if n == nil {
			return &question.AbsentError{Object: "Network " + name}
		}
		ids, p.begun[name] = append(ids, n.UID), n.Created
	}
	if q.Networks != nil {
		// Within Networks, namespaces only select. A namespace that does not exist gets the same empty answer as one in another Network,
		// so that the asker does not learn which of the two it is.
		p.Whose = strings.Join(ids, " ")
		return nil
	}
	for _, name := range q.Namespaces {
		ns, err := s.Client.CoreV1().Namespaces().Get(ctx, name, meta.GetOptions{ResourceVersion: "0"})
		if apierrors.IsNotFound(err) {
			return &question.AbsentError{Object: "namespace " + name}
		}
		if err != nil {
			return fmt.Errorf("read namespace %s: %w", name, err)
		}
		ids, p.begun[name+"/"] = append(ids, string(ns.UID)), ns.CreationTimestamp.Time
	}
	p.Whose = strings.Join(ids, " ")
	return nil
}

// nodes finds the agents to ask, and their addresses.
func (p *Plan) nodes(ctx context.Context, s snapshot.Sources, near map[string]bool) error {
	var err error
	if p.Nodes, err = s.AgentNodes(ctx); err != nil {
		return err
	}
	for n := range p.Nodes {
		p.Nodes[n].Near = near[p.Nodes[n].Name]
	}
	slices.SortFunc(p.Nodes, func(a, b snapshot.AgentNode) int {
		if a.Near != b.Near {
			if a.Near {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if p.Skipped = max(0, len(p.Nodes)-MaxNodes); p.Skipped > 0 {
		p.Nodes = p.Nodes[:MaxNodes]
	}
	return nil
}

// Tell returns a flow as the asker may see it, or false when the asker may not see it or did not ask for it.
func (p *Plan) Tell(f model.Flow, node string) (api.Flow, bool) {
	namespace, _, _ := strings.Cut(f.Pod, "/")
	if !p.Question.Asks(f) || f.Last.Before(p.begun[f.Network]) || f.Last.Before(p.begun[namespace+"/"]) {
		return api.Flow{}, false
	}
	out := api.Flow{
		Network: f.Network, Protocol: f.Protocol, Port: f.Port, Verdict: f.Verdict, Policy: f.Policy, Rule: f.Rule, Direction: f.Direction,
		Minute: meta.NewTime(f.Minute.UTC()), Last: meta.NewMicroTime(f.Last.UTC()), Connections: f.Connections, Packets: f.Packets,
		Bytes: f.Bytes,
		From:  p.names.end(f, f.Source, f.Direction == model.PolicyEgress.String()), To: p.names.end(f, f.Destination,
			f.Direction == model.PolicyIngress.String()),
	}
	if p.names.seesNode(node) {
		out.Node = node
	}
	if p.pod != "" && (out.From.Kind != api.FlowPod || out.From.Name != p.pod) && (out.To.Kind != api.FlowPod || out.To.Name != p.pod) {
		return api.Flow{}, false
	}
	return out, true
}

// Names reports whether the asker may see the name of a node.
func (p *Plan) Names(node string) bool { return p.names.seesNode(node) }
