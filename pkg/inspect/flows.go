package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
)

// MaxFlowNodes is how many nodes are asked for flows at most: first those that have pods of whom it is about.
const MaxFlowNodes = 512

// FlowsOffError says that nothing is sampled of what is asked about.
type FlowsOffError struct {
	// Network is the one that is not sampled, while others may be; empty: none is.
	Network string
}

// Error implements error.
func (e *FlowsOffError) Error() string {
	if e.Network != "" {
		return fmt.Sprintf("flows of Network %s are not sampled: flows.networks of the AtollConfig names others. Next, for who administers the cluster: kubectl edit atollconfig cluster", e.Network)
	}
	return `flows are not sampled: flows.sampling of the AtollConfig is Off. Next, for who administers the cluster: kubectl patch atollconfig cluster --type=merge -p '{"spec":{"flows":{"sampling":"On"}}}'`
}

// FlowQuestion asks for flows. Whoever hands it on has seen to it that who asks may be told.
type FlowQuestion struct {
	// Networks and Namespaces are whose: of these Networks, and of the pods of these namespaces. Nil: of all. Where Networks are named, namespaces choose from what is
	// theirs.
	Networks, Namespaces []string
	// Pod is the one at an end of them; its zero value: whoever is.
	Pod   model.PodKey
	Drops bool
	// Since is the age of the oldest, Until that of the newest; 0 is the hour that is kept, and now.
	Since  time.Duration
	Until  time.Duration
	Follow bool
	// Again is how far back who follows hears again what was told: they go on.
	Again time.Duration
}

// FlowSight says whom somebody may see at the other ends of flows. Nil functions: everybody. Their errors are that nobody knows, so that nobody is seen.
type FlowSight struct {
	// Network reports whether he may see who has the addresses of a Network, Namespace whether he may see the pods and Services of a namespace.
	Network, Namespace func(name string) (bool, error)
}

// FlowNode is a node whose agent is asked, for flows or whether all is as it should be.
type FlowNode struct {
	Name string
	// Addresses are the Node's own, internal ones.
	Addresses []netip.Addr
	// Near: it has pods of whom flows are asked about.
	Near bool
}

// FlowPlan is how a question about flows is answered, as the cluster is now.
type FlowPlan struct {
	// Nodes are those to ask, near ones first; Skipped is how many more there are.
	Nodes   []FlowNode
	Skipped int
	// Question is what each is asked.
	Question model.FlowQuestion
	// Whose says whom it is about: who follows has enough when it is others of the same names.
	Whose string

	names *flowNames
	pod   string
	// begun are when the Networks and namespaces of those names were made: what was before is others'.
	begun map[string]time.Time
}

// Flows plans the answer to a question about flows. Its error is a FlowsOffError where nothing is sampled, and a QuestionError where it is about nobody.
func (i Inquirer) Flows(ctx context.Context, q FlowQuestion, sight FlowSight) (*FlowPlan, error) {
	if i.Settings == nil {
		return nil, ErrNotRead
	}
	held, err := i.Held()
	if err != nil {
		return nil, err
	}
	settings, err := i.Settings()
	if err != nil {
		return nil, err
	}
	p := &FlowPlan{begun: map[string]time.Time{}, Question: model.FlowQuestion{
		Networks: q.Networks, Namespaces: q.Namespaces, Drops: q.Drops, Since: q.Since, Until: q.Until, Follow: q.Follow, Again: q.Again,
	}}
	if q.Pod != (model.PodKey{}) {
		p.pod = q.Pod.String()
	}
	if err := p.whose(ctx, i, held, q); err != nil {
		return nil, err
	}
	if err := sampled(held, settings.Flows, q); err != nil {
		return nil, err
	}
	near := map[string]bool{}
	for key, pod := range held.Objects.Pods {
		a := held.attachment(pod)
		if a != nil && (q.Networks == nil || slices.Contains(q.Networks, a.Network)) && (q.Namespaces == nil || slices.Contains(q.Namespaces, key.Namespace)) {
			near[pod.Node] = true
		}
	}
	if err := p.nodes(ctx, i, near); err != nil {
		return nil, err
	}
	p.names = newFlowNames(held, settings, sight, near)
	return p, nil
}

// sampled is a FlowsOffError unless what is asked about is sampled.
func sampled(held Held, settings config.Flows, q FlowQuestion) error {
	asked := slices.Clone(q.Networks)
	for _, namespace := range q.Namespaces {
		for key, pod := range held.Objects.Pods {
			if a := held.attachment(pod); q.Networks == nil && key.Namespace == namespace && a != nil && !slices.Contains(asked, a.Network) {
				asked = append(asked, a.Network)
			}
		}
	}
	off := func(name string) bool { return len(settings.Networks) > 0 && !slices.Contains(settings.Networks, name) }
	switch {
	case !settings.On:
		return &FlowsOffError{}
	case len(asked) > 0 && !slices.ContainsFunc(asked, func(name string) bool { return !off(name) }):
		return &FlowsOffError{asked[0]}
	}
	return nil
}

// whose finds since when the names of a question are those of whom they are now.
func (p *FlowPlan) whose(ctx context.Context, i Inquirer, held Held, q FlowQuestion) error {
	var ids []string
	for _, name := range q.Networks {
		n := held.Objects.Networks[name]
		if n == nil {
			return &AbsentError{"Network " + name}
		}
		ids, p.begun[name] = append(ids, n.UID), n.Created
	}
	if q.Networks != nil {
		// Namespaces choose from what is his: of one that is not there he is told what he is told of one that is elsewhere.
		p.Whose = strings.Join(ids, " ")
		return nil
	}
	for _, name := range q.Namespaces {
		ns, err := i.Client.CoreV1().Namespaces().Get(ctx, name, meta.GetOptions{ResourceVersion: "0"})
		if apierrors.IsNotFound(err) {
			return &AbsentError{"namespace " + name}
		}
		if err != nil {
			return fmt.Errorf("read namespace %s: %w", name, err)
		}
		ids, p.begun[name+"/"] = append(ids, string(ns.UID)), ns.CreationTimestamp.Time
	}
	p.Whose = strings.Join(ids, " ")
	return nil
}

// nodes finds whom to ask, and where.
func (p *FlowPlan) nodes(ctx context.Context, i Inquirer, near map[string]bool) error {
	var err error
	if p.Nodes, err = i.AgentNodes(ctx); err != nil {
		return err
	}
	for n := range p.Nodes {
		p.Nodes[n].Near = near[p.Nodes[n].Name]
	}
	slices.SortFunc(p.Nodes, func(a, b FlowNode) int {
		if a.Near != b.Near {
			if a.Near {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if p.Skipped = max(0, len(p.Nodes)-MaxFlowNodes); p.Skipped > 0 {
		p.Nodes = p.Nodes[:MaxFlowNodes]
	}
	return nil
}

// AgentNodes are the cluster's nodes, by whose addresses their agents are asked.
func (i Inquirer) AgentNodes(ctx context.Context) ([]FlowNode, error) {
	list, err := i.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	out := make([]FlowNode, 0, len(list.Items))
	for _, node := range list.Items {
		n := FlowNode{Name: node.Name}
		for _, a := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == core.NodeInternalIP {
				n.Addresses = append(n.Addresses, parsed.Unmap())
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// Tell is a flow as who asks is told of it; false where he is not.
func (p *FlowPlan) Tell(f model.Flow, node string) (api.Flow, bool) {
	namespace, _, _ := strings.Cut(f.Pod, "/")
	if !p.Question.Asks(f) || f.Last.Before(p.begun[f.Network]) || f.Last.Before(p.begun[namespace+"/"]) {
		return api.Flow{}, false
	}
	out := api.Flow{
		Network: f.Network, Protocol: f.Protocol, Port: f.Port, Verdict: f.Verdict, Policy: f.Policy, Rule: f.Rule, Direction: f.Direction,
		Minute: meta.NewTime(f.Minute.UTC()), Last: meta.NewMicroTime(f.Last.UTC()), Connections: f.Connections, Packets: f.Packets, Bytes: f.Bytes,
		From: p.names.end(f, f.Source, f.Direction == model.PolicyEgress.String()), To: p.names.end(f, f.Destination, f.Direction == model.PolicyIngress.String()),
	}
	if p.names.seesNode(node) {
		out.Node = node
	}
	if p.pod != "" && (out.From.Kind != api.FlowPod || out.From.Name != p.pod) && (out.To.Kind != api.FlowPod || out.To.Name != p.pod) {
		return api.Flow{}, false
	}
	return out, true
}

// Names reports whether who asks may be told the name of a node.
func (p *FlowPlan) Names(node string) bool { return p.names.seesNode(node) }
