package inspectapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// pingTime bounds the answer to a ping. The API server itself cuts what takes a minute.
const pingTime = 50 * time.Second

// Nodes finds pods, whom they dial, and the agents that can send from them.
type Nodes interface {
	Sends
	// Sender finds a pod and its node. Its error is a question.Error where there is none.
	Sender(ctx context.Context, key model.PodKey) (snapshot.Sender, error)
	// NodeAddresses are those of a Node, at which its agent is asked. Its error is a question.Error where there is none.
	NodeAddresses(ctx context.Context, name string) ([]netip.Addr, error)
	// Dialled are the addresses by which a pod dials the other end of a question, as far as who asks may be told.
	Dialled(ctx context.Context, from model.PodKey, spec api.ExplanationSpec, may question.MayAsk) ([]netip.Addr, error)
}

// pinger has packets sent from pods.
type pinger struct {
	*handler
	nodes  Nodes
	agents askPing
	crowd  *turns.Turns
}

func newPinger(h *handler, nodes Nodes, agents askPing) *pinger {
	return &pinger{handler: h, nodes: nodes, agents: agents, crowd: turns.New("pings", turns.Bounds{Every: 16, Each: 4, Kept: 4})}
}

// ServeHTTP implements http.Handler.
func (p *pinger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pingTime)
	defer cancel()
	from := model.PodKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	asked, left, err := p.comes(w, r, maxQuestion, func(asked request) error { return p.mayCreate(ctx, asked.who, api.SubresourcePing, from) })
	if err != nil {
		p.fail(w, err)
		return
	}
	left()
	who := asked.who
	leave, err := enter(p.crowd, asked.share)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer leave()
	sender, q, err := p.question(ctx, asked, from)
	if err != nil {
		p.fail(w, err)
		return
	}
	out := &lines{w: w, control: http.NewResponseController(w)}
	p.log.Info("packets are sent from a pod", "user", who.Name, "pod", from, "uid", sender.UID, "node", sender.Node, "protocol",
		q.Ping.Protocol, "targets", q.Ping.Targets,
		"port", q.Ping.Port, "count", q.Ping.Count)
	err = p.agents(ctx, sender, q, func(reply ping.Reply) error {
		return out.write(api.PodPingLine{Reply: &api.PodPingReply{
			Address: reply.Target.String(), Number: reply.Number, Answered: reply.Answered, Took: meta.Duration{Duration: reply.Took},
			Why: reply.Why,
		}})
	})
	switch {
	case err != nil && !out.begun:
		p.fail(w, agentProblem(err))
	case err != nil:
		_ = out.write(api.PodPingLine{Error: err.Error()}) // Who asked may have gone.
	default:
		_ = out.write(api.PodPingLine{End: true})
	}
}

// question is what the pod's agent is asked.
func (p *pinger) question(ctx context.Context, asked request, from model.PodKey) (snapshot.Sender, nodeapi.Question, error) {
	var in api.PodPing
	if err := readQuestion(asked.text, &in); err != nil {
		return snapshot.Sender{}, nodeapi.Question{}, err
	}
	s := in.Spec
	q := nodeapi.Question{User: asked.who.Name, Account: asked.share, Ping: ping.Spec{
		Protocol: model.Protocol(s.Protocol), Port: s.Port, Count: s.Count, First: s.First, Size: s.Size, Interval: s.Interval.Duration,
		Timeout: s.Timeout.Duration,
		// Whom is not known before the rest is good.
		Targets: []netip.Addr{netip.IPv6Loopback()},
	}}
	if err := q.Ping.Check(); err != nil {
		return snapshot.Sender{}, q, apierrors.NewBadRequest(err.Error())
	}
	sender, err := p.nodes.Sender(ctx, from)
	if err != nil {
		return sender, q, err
	}
	may, err := p.mayAsk(ctx, asked.who)
	if err != nil {
		return sender, q, err
	}
	err = p.working(asked, func() (err error) {
		q.Ping.Targets, err = p.nodes.Dialled(ctx, from, api.ExplanationSpec{To: s.To, Protocol: s.Protocol, Port: s.Port}, may)
		return err
	})
	if err != nil {
		return sender, q, err
	}
	if len(q.Ping.Targets) > ping.MaxTargets {
		q.Ping.Targets = q.Ping.Targets[:ping.MaxTargets]
	}
	q.Pod = nodeapi.Pod{Namespace: from.Namespace, Name: from.Name, UID: sender.UID}
	return sender, q, nil
}

// agentProblem is what a user is told of an agent that does not answer: not that inspection is away.
func agentProblem(err error) error {
	if refused, ok := errors.AsType[*nodeapi.RefusedError](err); ok && !refused.Temporary {
		return apierrors.NewBadRequest(refused.What)
	}
	return apierrors.NewTimeoutError(err.Error(), 1)
}
