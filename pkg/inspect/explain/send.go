package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	watch "github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// maxObserved bounds on how many nodes a packet is watched for: a Service may have endpoints on all.
const maxObserved = 16

// Sending is an explanation with what it takes to prove it by packets.
type Sending struct {
	// Status is the explanation, as who asks is told it.
	Status api.ExplanationStatus
	// Unsent is why nothing is sent: then the rest is empty.
	Unsent string
	// From is the pod that sends, Targets are the addresses that it dials, and Ports where answers of them come from.
	From    snapshot.Sender
	Targets []netip.Addr
	Ports   []uint16
	// Nodes are those where the packet is watched for: that of the sender first, and each that the explanation has. Of each there
	// are Node and Addresses alone.
	Nodes []snapshot.Sender
	// Judge says of each target what became of the packet, of what was seen and answered, as who asks is told it.
	Judge func(seen []Observed, replies []ping.Reply) []api.ExplanationSent
}

// Observed is what was seen on a node.
type Observed struct {
	Node   string
	Points []nodeapi.Point
	// Problem is why it was not observed, or not to the end.
	Problem string
}

// SenderOf is the pod that an explanation's packet is sent from. Its error is that From is none.
func SenderOf(spec api.ExplanationSpec) (model.PodKey, error) {
	q, err := question.ParseQuestion(spec)
	if err != nil {
		return model.PodKey{}, err
	}
	switch {
	case q.From.Pod == model.PodKey{}:
		return model.PodKey{}, fmt.Errorf("--send: %s sends no packet: FROM must be a pod, NAMESPACE/NAME", q.From)
	case q.Protocol == model.SCTP:
		return model.PodKey{}, errors.New("--send: packets of sctp are not sent: name tcp, udp or icmp")
	}
	return q.From.Pod, nil
}

// ToSend explains, and says what is to be sent, to whom, and where it is to be watched for. Its error is as of Explain and Sender.
func ToSend(ctx context.Context, s snapshot.Sources, spec api.ExplanationSpec, may question.MayAsk) (*Sending, error) {
	from, err := SenderOf(spec)
	if err != nil {
		return nil, &question.Error{Err: err}
	}
	out := &Sending{}
	var proof *proof
	err = asked(ctx, s, spec, may, func(e *explainer, limits *visibility.Limits) error {
		answer, err := e.answer()
		if err != nil {
			return err
		}
		if e.unasked != nil {
			answer.Sources += ": " + e.unasked.Error()
		}
		out.Ports = e.portsOf()
		targets, unsent := e.dialled(limits)
		if unsent != nil {
			out.Unsent = unsent.Error()
			if limits != nil {
				out.Unsent = limits.Problem(unsent).Error()
			}
		}
		out.Targets = targets[:min(len(targets), ping.MaxTargets)]
		proof = e.proofOf(answer, limits)
		if limits != nil {
			answer = toldBySight(limits, answer)
		}
		out.Status = statusOf(answer)
		if spec.Raw {
			out.Status.Raw = e.raw()
		}
		return nil
	})
	if err != nil || out.Unsent != "" {
		return out, err
	}
	if out.From, err = s.Sender(ctx, from); err != nil {
		return nil, err
	}
	proof.node, proof.network, proof.targets = out.From.Node, out.From.Network, out.Targets
	out.Nodes = []snapshot.Sender{out.From}
	for _, node := range nodesOf(proof.ways, out.From.Node) {
		if len(out.Nodes) == maxObserved {
			break
		}
		// A node that is not there is one that cannot be asked.
		addresses, _ := s.NodeAddresses(ctx, node)
		out.Nodes = append(out.Nodes, snapshot.Sender{Node: node, Addresses: addresses})
	}
	out.Judge = proof.judge
	return out, nil
}

// proofOf is what an explanation is compared with. Where the sender is, and whom it sends to, is not in it yet.
func (e *explainer) proofOf(answer Explanation, limits *visibility.Limits) *proof {
	out := &proof{
		from: e.q.From.Pod, port: e.q.Port, ways: answer.Ways, told: answer.Ways, limits: limits, pods: e.whole.Pods,
		home: map[model.PodKey]string{}, tunnels: tunnelsOf(e.whole),
	}
	if limits != nil {
		out.told = toldBySight(limits, answer).Ways
	}
	for key, p := range e.whole.Pods {
		if len(p.Assigned) > 0 {
			out.home[key] = p.Assigned[0].Network
		}
	}
	return out
}

// portsOf are those that answers come from: the dialled one, and those of endpoints.
func (e *explainer) portsOf() []uint16 {
	if e.q.Port == 0 {
		return nil
	}
	out := []uint16{e.q.Port}
	for _, p := range e.met.ports {
		if p != 0 && !slices.Contains(out, p) && len(out) < watch.MaxPorts {
			out = append(out, p)
		}
	}
	return out
}

// nodesOf are the nodes that ways lead by, but one, in their order.
func nodesOf(ways []Way, but string) (out []string) {
	for _, w := range ways {
		for _, h := range slices.Concat(w.There, w.Back) {
			if h.Node != "" && h.Node != but && !slices.Contains(out, h.Node) {
				out = append(out, h.Node)
			}
		}
	}
	return out
}

// tunnelsOf are the nodes' addresses, by which tunnels are told.
func tunnelsOf(objects model.Changes) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(objects.Nodes)) {
		for _, a := range objects.Nodes[name].Addresses {
			out[a] = name
		}
	}
	for _, r := range objects.Reports {
		for _, a := range r.Tunnels {
			out[a] = r.Node
		}
	}
	return out
}
