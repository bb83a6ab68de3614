package inspectapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// heard is what a node has told: a flow, or why it tells no more.
type heard struct {
	node string
	flow model.Flow
	err  error
	// ended: nothing more comes of the node. err is nil when it has told all.
	ended bool
}

// once tells what nodes keep, in the order of time.
func (f *flower) once(ctx context.Context, asked request, plan *flows.Plan, out *flowLines) {
	flows, status := f.gather(ctx, asked, plan)
	for i := range flows {
		if err := out.write(api.FlowLine{Flow: &flows[i]}); err != nil {
			return
		}
	}
	_ = out.flush(api.FlowLine{End: &status}) // Who asked may have gone.
}

// gather asks all nodes of a plan, and waits for them no longer than the bound says: of the newest flows as many as an answer may have.
func (f *flower) gather(ctx context.Context, asked request, plan *flows.Plan) ([]api.Flow, api.FlowStatus) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.bounds.gather, fmt.Errorf("it took more than %s", f.bounds.gather))
	defer cancel()
	all, q := make(chan heard, f.bounds.batch), asks(asked, plan, f.bounds.told)
	turns, asking := make(chan snapshot.AgentNode), sync.WaitGroup{}
	for range min(f.bounds.atOnce, len(plan.Nodes)) {
		asking.Go(func() {
			for node := range turns {
				err := context.Cause(ctx)
				if err == nil {
					err = f.agents(ctx, node, q, func(flow model.Flow) error {
						all <- heard{node: node.Name, flow: flow}
						return nil
					})
				}
				if err != nil && ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				all <- heard{node: node.Name, err: err, ended: true}
			}
		})
	}
	go func() {
		for _, node := range plan.Nodes {
			turns <- node
		}
		close(turns)
		asking.Wait()
		close(all)
	}()
	var flows []api.Flow
	status, had := api.FlowStatus{Others: plan.Skipped}, map[string]int{}
	// It is read to its end, so that nobody is left who writes.
	for one := range all {
		switch {
		case !one.ended:
			if had[one.node]++; had[one.node] == f.bounds.told {
				status.Cut = true
			}
			if flow, mine := plan.Tell(one.flow, one.node); mine {
				flows = append(flows, flow)
			}
		case one.err == nil:
			status.Nodes++
		case plan.Names(one.node):
			status.Silent = append(status.Silent, api.SilentNode{Node: one.node, Why: one.err.Error()})
		default:
			status.Others++
		}
		if len(flows) >= 2*f.bounds.told {
			flows, status.Cut = newest(flows, f.bounds.told), true
		}
	}
	status.Cut = status.Cut || len(flows) > f.bounds.told
	slices.SortFunc(status.Silent, func(a, b api.SilentNode) int { return cmp.Compare(a.Node, b.Node) })
	return newest(flows, f.bounds.told), status
}

// newest are the newest of some flows, the oldest of these first.
func newest(flows []api.Flow, most int) []api.Flow {
	slices.SortStableFunc(flows, inOrder)
	return flows[max(0, len(flows)-most):]
}

// inOrder orders flows by time, and at the same time as nobody minds.
func inOrder(a, b api.Flow) int {
	return cmp.Or(a.Last.Compare(b.Last.Time), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.From.Address, b.From.Address),
		cmp.Compare(a.To.Address, b.To.Address), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Direction, b.Direction))
}

// flowLines writes lines. A reader who does not read gets no more.
type flowLines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
	last    time.Time
}

func (l *flowLines) write(line api.FlowLine) error {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/json")
	}
	l.last = time.Now()
	if err := l.control.SetWriteDeadline(l.last.Add(reviewTime)); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	if err := json.NewEncoder(l.w).Encode(line); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

// flush writes a line, and has all be sent. Between lines nobody is late: with HTTP/2 a deadline that passes ends the stream,
// whether or not anything is written.
func (l *flowLines) flush(line api.FlowLine) error {
	if err := l.write(line); err != nil {
		return err
	}
	if err := l.control.Flush(); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	if err := l.control.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}
