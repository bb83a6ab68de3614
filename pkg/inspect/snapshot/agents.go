package snapshot

import (
	"context"
	"fmt"
	"net/netip"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
)

// Sender is a pod that packets can be sent from, or captured of, and where it is.
type Sender struct {
	Key model.PodKey
	// Network is the one that it is in.
	UID, Node, Network string
	// Addresses are the Node's own, internal ones.
	Addresses []netip.Addr
}

// Sender finds a pod that has a network of Atoll's, and the node that it is on. Its error is a question.Error where there is none.
func (s Sources) Sender(ctx context.Context, key model.PodKey) (Sender, error) {
	held, err := s.Held()
	if err != nil {
		return Sender{}, err
	}
	p := held.Objects.Pods[key]
	if p == nil || held.Attachment(p) == nil {
		return Sender{}, &question.Error{
			Err: fmt.Errorf(
				"there is no pod %s with a network of its own: it may not exist, have finished, have no node yet, or use its "+
					"node's network. Next: atoll pod %s", key, key),
		}
	}
	out := Sender{Key: key, UID: p.UID, Node: p.Node, Network: held.Attachment(p).Network}
	out.Addresses, err = s.NodeAddresses(ctx, p.Node)
	return out, err
}

// NodeAddresses are a Node's own, internal ones. Its error is a question.Error where there is no such Node.
func (s Sources) NodeAddresses(ctx context.Context, name string) (out []netip.Addr, err error) {
	node, err := s.Client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil, &question.Error{Err: fmt.Errorf("there is no node %s", name)}
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

// AgentNode is a node whose agent is asked, for flows or whether all is as it should be.
type AgentNode struct {
	Name string
	// Addresses are the Node's own, internal ones.
	Addresses []netip.Addr
	// Near: it has pods of whom flows are asked about.
	Near bool
}

// AgentNodes are the cluster's nodes, by whose addresses their agents are asked.
func (s Sources) AgentNodes(ctx context.Context) ([]AgentNode, error) {
	list, err := s.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	out := make([]AgentNode, 0, len(list.Items))
	for _, node := range list.Items {
		n := AgentNode{Name: node.Name}
		for _, a := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == core.NodeInternalIP {
				n.Addresses = append(n.Addresses, parsed.Unmap())
			}
		}
		out = append(out, n)
	}
	return out, nil
}

const (
	// AgentNamespace is where agents are.
	AgentNamespace = "atoll-system"
	// AgentLabel is that of their pods.
	AgentLabel = "app.kubernetes.io/name=atoll-agent"
)
