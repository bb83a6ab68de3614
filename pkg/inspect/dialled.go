package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// Sender is a pod that packets can be sent from, or captured of, and where it is.
type Sender struct {
	Key model.PodKey
	// Network is the one that it is in.
	UID, Node, Network string
	// Addresses are the Node's own, internal ones.
	Addresses []netip.Addr
}

// Sender finds a pod that has a network of Atoll's, and the node that it is on. Its error is a QuestionError where there is none.
func (i Inquirer) Sender(ctx context.Context, key model.PodKey) (Sender, error) {
	held, err := i.Held()
	if err != nil {
		return Sender{}, err
	}
	p := held.Objects.Pods[key]
	if p == nil || held.attachment(p) == nil {
		return Sender{}, &QuestionError{fmt.Errorf("there is no pod %s with a network of its own: it may not exist, have finished, have no node yet, or use its node's network. Next: atoll pod %s", key, key)}
	}
	out := Sender{Key: key, UID: p.UID, Node: p.Node, Network: held.attachment(p).Network}
	out.Addresses, err = i.NodeAddresses(ctx, p.Node)
	return out, err
}

// NodeAddresses are a Node's own, internal ones. Its error is a QuestionError where there is no such Node.
func (i Inquirer) NodeAddresses(ctx context.Context, name string) (out []netip.Addr, err error) {
	node, err := i.Client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil, &QuestionError{fmt.Errorf("there is no node %s", name)}
	}
	if err != nil {
		return nil, fmt.Errorf("read Node %s: %w", name, err)
	}
	for _, a := range node.Status.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == core.NodeInternalIP {
			out = append(out, parsed.Unmap())
		}
	}
	return out, nil
}

// Dialled are the addresses that a pod dials to get to the other end of a question, each once. What of others who asks may be told, is as for Explain: its
// error is a QuestionError, too, where he may not be told, or where nothing is dialled, with the reason.
func (i Inquirer) Dialled(ctx context.Context, from model.PodKey, spec api.ExplanationSpec, may MayAsk) (out []netip.Addr, err error) {
	spec.From, spec.Raw = from.String(), false
	err = i.asked(ctx, spec, may, func(e *explainer, limits *sight) (err error) {
		out, err = e.dialled(limits)
		return err
	})
	return out, err
}

// dialled are the addresses that the sender, a pod, dials.
func (e *explainer) dialled(limits *sight) (out []netip.Addr, err error) {
	from, err := e.sender()
	switch {
	case err != nil:
		return nil, err
	case !from.isPod():
		return nil, fmt.Errorf("%s is no pod", from)
	case from.port == nil:
		return nil, fmt.Errorf("%s has no port in OVN and sends nothing. Next: atoll pod %s", from, from.pod)
	case e.q.To.Outside:
		return nil, fmt.Errorf("%s: name the address", outsideWord)
	case e.q.Protocol == trace.ICMP && e.objects.Services[e.q.To.Service] != nil:
		return nil, fmt.Errorf("%s: the address of a Service answers no echo requests. Next: name a port", e.q.To)
	}
	targets, ended, err := e.targets(from)
	if err != nil {
		return nil, err
	}
	if len(ended) > 0 {
		told := Explanation{From: e.q.From.String(), To: e.q.To.String(), Protocol: string(e.q.Protocol), Port: e.q.Port, Ways: ended}
		if limits != nil {
			told = limits.explanation(told)
		}
		// It begins with that it is stopped.
		return nil, fmt.Errorf("nothing is sent: %s", strings.TrimPrefix(told.Verdict(), "Stopped: "))
	}
	for _, t := range targets {
		if slices.Contains(somewhere(), t.to) && e.q.To.Name != "" {
			return nil, fmt.Errorf("%s is none of the cluster's names. Next: name its address", e.q.To)
		}
		if _, has := from.as(t.to); has && !slices.Contains(out, t.to) {
			out = append(out, t.to)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s and %s have no IP family in common", e.q.From, e.q.To)
	}
	return out, nil
}
