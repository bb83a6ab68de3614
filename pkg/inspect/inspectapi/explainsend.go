package inspectapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/turns"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// The bounds of one explanation that is proved by packets. All of it is within answerTime.
const (
	// beginTime bounds the time until the agents watch, replyTime the wait for the answer to a packet, and drainTime the time until
	// the agents have reported what they saw.
	beginTime, replyTime, drainTime = 4 * time.Second, 2 * time.Second, time.Second
	// sentSize is the payload of a sent packet, in bytes.
	sentSize = 56
)

// Sends finds the packets of an explanation. snapshot.Sources implement it.
type Sends interface {
	// Sending explains a question, and says what to send and what to watch. Its errors are those of Explain.
	Sending(ctx context.Context, spec api.ExplanationSpec, may question.MayAsk) (*explain.Sending, error)
}

// prover asks agents to send the packets of explanations, and to watch for them.
type prover struct {
	sends  Sends
	agents Agents
	crowd  *turns.Turns
}

func newProver(sends Sends, agents Agents) *prover {
	return &prover{sends: sends, agents: agents, crowd: turns.New("explanations with a packet", turns.Bounds{Every: 8, Each: 2, Kept: 2})}
}

// prove explains, then sends the packets. may says what the user may see. prove itself checks that the user may send.
func (h *handler) prove(r request, spec api.ExplanationSpec, may question.MayAsk) (api.ExplanationStatus, error) {
	none := api.ExplanationStatus{}
	if h.prover == nil {
		return none, apierrors.NewBadRequest("nobody sends packets here")
	}
	from, err := explain.SenderOf(spec)
	if err != nil {
		return none, apierrors.NewBadRequest(err.Error())
	}
	if err := h.mayCreate(r.Context(), r.who, api.SubresourcePing, from); err != nil {
		return none, err
	}
	leave, err := enter(h.prover.crowd, r.share)
	if err != nil {
		return none, err
	}
	defer leave()
	var s *explain.Sending
	err = h.working(r, func() (err error) {
		s, err = h.prover.sends.Sending(r.Context(), spec, may)
		return err
	})
	if err != nil {
		return none, err
	}
	out := s.Status
	if s.Unsent != "" {
		out.Unsent = s.Unsent
		return out, nil
	}
	h.log.Info("a marked packet is sent from a pod, and watched for", "user", r.who.Name, "pod", from, "uid", s.From.UID,
		"node", s.From.Node, "protocol", spec.Protocol, "targets", s.Targets,
		"port", spec.Port, "nodes", len(s.Nodes))
	seen, replies, err := h.prover.send(r.Context(), r, spec, s)
	if err != nil {
		return none, agentProblem(err)
	}
	out.Sent = s.Judge(seen, replies)
	return out, nil
}

// watched is what one node's agent has reported so far.
type watched struct {
	mu  sync.Mutex
	out explain.Observed
	// begun is closed when the agent watches, or when it cannot. beats counts the agent's beats from then on; each wakes the waiters.
	begun chan struct{}
	once  sync.Once
	beats wake.Signal
	gone  chan struct{}
}

// observed returns a copy of the observations.
func (w *watched) observed() explain.Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.out
	out.Points = append([]nodeapi.Point(nil), w.out.Points...)
	return out
}

func (w *watched) fail(problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out.Problem == "" {
		w.out.Problem = problem
	}
}

// hear takes one line that the agent sent.
func (w *watched) hear(line nodeapi.ObserveLine) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if line.Point != nil {
		w.out.Points = append(w.out.Points, *line.Point)
		return nil
	}
	if line.Dropped > 0 && w.out.Problem == "" {
		w.out.Problem = fmt.Sprintf("%d packets were not looked at, for want of room", line.Dropped)
	}
	w.once.Do(func() { close(w.begun) })
	w.beats.Send()
	return nil
}

// send waits until every node watches, or cannot, and then sends. Its error says that nothing was sent.
func (p *prover) send(
	ctx context.Context, asked request, spec api.ExplanationSpec, s *explain.Sending,
) ([]explain.Observed, []ping.Reply, error) {
	mark, err := ping.NewMark()
	if err != nil {
		return nil, nil, err
	}
	sending := nodeapi.Question{
		User: asked.who.Name, Account: asked.share, Pod: nodeapi.Pod{Namespace: s.From.Key.Namespace, Name: s.From.Key.Name, UID: s.From.UID},
		Ping: ping.Spec{
			Protocol: model.Protocol(spec.Protocol), Targets: s.Targets, Port: spec.Port, Count: 1, First: 1, Size: sentSize, Interval: time.Second,
			Timeout: replyTime, Mark: &mark,
		},
	}
	watching := nodeapi.ObserveQuestion{User: asked.who.Name, Account: asked.share, Pod: sending.Pod, Watch: observe.Watch{
		Protocol: sending.Ping.Protocol, Mark: mark, Targets: len(s.Targets), Ports: s.Ports,
		Time: beginTime + replyTime + drainTime + time.Second,
	}}
	// When observing ends, the agents stop watching.
	observing, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	all := make([]*watched, 0, len(s.Nodes))
	for _, node := range s.Nodes {
		w := &watched{out: explain.Observed{Node: node.Node}, begun: make(chan struct{}), beats: wake.NewSignal(), gone: make(chan struct{})}
		all = append(all, w)
		running.Go(func() {
			defer w.once.Do(func() { close(w.begun) })
			defer close(w.gone)
			if err := p.agents.Observe(observing, node, watching, w.hear); err != nil && observing.Err() == nil {
				w.fail(err.Error())
			}
		})
	}
	beginning, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	for _, w := range all {
		select {
		case <-w.begun:
		case <-beginning.Done():
			w.fail(fmt.Sprintf("its agent has not begun to watch within %s", beginTime))
		}
	}
	// An old agent that does not know marks would send the packet without one.
	if problem := all[0].observed().Problem; problem != "" {
		return nil, nil, fmt.Errorf("nothing was sent: node %s does not watch: %s", s.From.Node, problem)
	}
	var replies []ping.Reply
	err = p.agents.Ping(ctx, s.From, sending, func(r ping.Reply) error {
		replies = append(replies, r)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	draining, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	out := make([]explain.Observed, 0, len(all))
	for _, w := range all {
		if err := w.drain(draining); err != nil {
			w.fail(err.Error())
		}
		out = append(out, w.observed())
	}
	return out, replies, nil
}

// drain waits until the agents have reported all that they have seen by now. It waits for three beats of each agent: the first may
// have been under way already, the two others are new.
func (w *watched) drain(ctx context.Context) error {
	for range 3 {
		select {
		case <-w.beats:
		case <-w.gone:
			return errors.New("its agent has ended too soon")
		case <-ctx.Done():
			return fmt.Errorf("its agent has said nothing for %s", drainTime)
		}
	}
	return nil
}
