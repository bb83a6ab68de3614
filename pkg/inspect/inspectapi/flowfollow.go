package inspectapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// errOthers says that the followed Networks or namespaces are no longer the objects that the follower began with.
var errOthers = errors.New("what is followed was made anew, or has gone: ask again")

// following is one request that follows flows.
type following struct {
	*flower
	asked request
	plan  *flows.Plan
	// again makes a new plan, if the user still has the right.
	again func(ctx context.Context) (*flows.Plan, error)

	asking sync.WaitGroup
	// all receives what the nodes send. on are the nodes that are followed. lost are those reported to the user as missing.
	all  chan heard
	on   map[string]bool
	lost map[string]bool
	// told remembers the flows that a node may send again. began is the start of the request.
	told  *flows.Told[heardFlow]
	began time.Time
}

// heardFlow identifies a flow of a node. The pod is not part of the identity: the node may learn it later.
type heardFlow struct {
	node string
	flow model.Flow
}

func (h heard) key() heardFlow {
	h.flow.Pod = ""
	return heardFlow{h.node, h.flow}
}

// follow writes flows as they arrive, sorted by time within each second. It ends when ctx ends, when the user stops reading, or when
// the user loses the right.
func (f *flower) follow(ctx context.Context, out *flowLines, s *following) {
	ctx, cancel := context.WithCancel(ctx)
	s.all, s.on, s.lost = make(chan heard, f.bounds.batch), map[string]bool{}, map[string]bool{}
	s.told, s.began = flows.NewTold[heardFlow](), time.Now()
	defer s.asking.Wait()
	defer cancel()
	s.ask(ctx)
	second, again := time.NewTicker(f.bounds.second), time.NewTicker(f.bounds.again)
	defer second.Stop()
	defer again.Stop()
	var batch []api.Flow
	write := func() error {
		slices.SortStableFunc(batch, inOrder)
		for i := range batch {
			if err := out.write(api.FlowLine{Flow: &batch[i]}); err != nil {
				return err
			}
		}
		if len(batch) > 0 || time.Since(out.last) > f.bounds.beat {
			batch = batch[:0]
			return out.flush(api.FlowLine{})
		}
		return nil
	}
	// An empty line tells the follower at once that the request was accepted.
	err := out.flush(api.FlowLine{})
	for err == nil {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errOld) {
				_ = write()
				_ = out.flush(api.FlowLine{Renew: true, Error: errOld.Error() + ": ask again"}) // Who follows may have gone.
			}
			return
		case one := <-s.all:
			if one.ended {
				err = s.missed(out, one)
				continue
			}
			if s.lost[one.node] {
				err = s.missed(out, one)
			}
			if flow, mine := s.plan.Tell(one.flow, one.node); mine && s.told.First(one.key()) {
				batch = append(batch, flow)
			}
			if err == nil && len(batch) >= f.bounds.batch {
				err = write()
			}
		case <-second.C:
			err = write()
		case <-again.C:
			if why := s.renew(ctx); why != nil {
				_ = write()
				_ = out.flush(api.FlowLine{Error: why.Error()}) // Who follows may have gone.
				return
			}
		}
	}
}

// missed reports a node that stopped answering, or that answers again.
func (s *following) missed(out *flowLines, one heard) error {
	if !s.plan.Names(one.node) || s.lost[one.node] == (one.err != nil) {
		return nil
	}
	s.lost[one.node] = one.err != nil
	line := api.SilentNode{Node: one.node}
	if one.err != nil {
		line.Why = one.err.Error()
	}
	return out.flush(api.FlowLine{Silent: &line})
}

// renew replaces the plan by one for the cluster as it is now. If that fails for now, the plan stays.
func (s *following) renew(ctx context.Context) error {
	plan, err := s.again(ctx)
	_, off := errors.AsType[*flows.OffError](err)
	_, gone := errors.AsType[*question.AbsentError](err)
	switch {
	case err == nil && plan.Whose != s.plan.Whose, gone:
		return errOthers
	case off, refused(err):
		return err
	case err != nil:
		s.log.Debug("flows are followed as they were", "error", err)
		return nil
	}
	s.plan = plan
	s.ask(ctx)
	return nil
}

// ask follows the nodes that are not followed yet: those with pods that the question is about, or all if the user may see all.
func (s *following) ask(ctx context.Context) {
	everything := s.plan.Question.Networks == nil && s.plan.Question.Namespaces == nil
	for _, node := range s.plan.Nodes {
		if s.on[node.Name] || !node.Near && !everything {
			continue
		}
		s.on[node.Name] = true
		q := asks(s.asked, s.plan, s.bounds.told)
		again := s.plan.Question.Again
		s.asking.Go(func() {
			for {
				asked := time.Now()
				err := s.agents(ctx, node, q, func(flow model.Flow) error { return s.tell(ctx, heard{node: node.Name, flow: flow}) })
				// The node repeats flows of the gap; told drops those that were already written.
				q.Flows.Since, q.Flows.Again = time.Nanosecond, min(nodeapi.MaxAgain, time.Since(s.began)+again)
				if err == nil && time.Since(asked) > s.bounds.beat {
					continue // The agent ends a long request on purpose.
				}
				if err == nil {
					err = errors.New("it has ended")
				}
				if ctx.Err() != nil || s.tell(ctx, heard{node: node.Name, err: err, ended: true}) != nil {
					return
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(s.bounds.beat):
				}
			}
		})
	}
}

func (s *following) tell(ctx context.Context, one heard) error {
	select {
	case s.all <- one:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
