package nodeapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

const (
	pathFlows = "/flows"
	// maxFlowsAtOnce is how many questions about flows an agent answers at the same time, maxFollowers how many of them follow. They
	// take no turns of the others.
	maxFlowsAtOnce, maxFollowers = 24, 16
	// followTime is how long one follows at most. atoll-inspect asks again, and misses nothing; its own bound is less.
	followTime = 11 * time.Minute
	// MaxAgain is how far back somebody may hear again what was told to those who followed.
	MaxAgain = 30 * time.Second
	// MaxFlows is how many flows of those that are kept an answer has at most.
	MaxFlows = 1 << 14
	// beatEvery is how often an agent that is followed says that it is there, and silence how long nobody waits for it to say anything.
	beatEvery, silence = 2 * time.Second, 8 * time.Second
)

// FlowsQuestion asks for flows of the agent's node. atoll-inspect has seen to it that the user may hear of them.
type FlowsQuestion struct {
	// User is on whose account, for the log.
	User string `json:"user"`
	// Account is whose turns it takes.
	Account turns.Who `json:"account,omitzero"`
	// All says that no Networks and no namespaces are named since all are meant: what is left out by mistake means nothing.
	All   bool               `json:"all,omitempty"`
	Flows model.FlowQuestion `json:"flows"`
}

// Check says what is wrong with it.
func (q FlowsQuestion) Check() error {
	switch {
	case q.User == "":
		return errors.New("a question says on whose account it is asked")
	case q.All == (q.Flows.Networks != nil || q.Flows.Namespaces != nil):
		return errors.New("a question about flows names Networks or namespaces, or is about all")
	case q.Flows.Limit < 1 || q.Flows.Limit > MaxFlows:
		return fmt.Errorf("a question about flows is for 1 to %d of them", MaxFlows)
	case q.Flows.Since < 0 || q.Flows.Until < 0:
		return errors.New("a question about flows is about the past")
	case q.Flows.Again < 0 || q.Flows.Again > MaxAgain || q.Flows.Again > 0 && !q.Flows.Follow:
		return fmt.Errorf("who follows flows hears again those of at most %s", MaxAgain)
	}
	return nil
}

func (q FlowsQuestion) by() turns.Who { return share(q.Account, q.User) }

// errLong: somebody has followed as long as one may.
var errLong = errors.New("it was followed as long as one may")

// FlowLine is a part of an answer about flows: one, its end, or neither, which says that whoever answers is there.
type FlowLine struct {
	Flow *model.Flow `json:"flow,omitempty"`
	// End: it is whole. Error is why it is not.
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

func (h *handler) flows(w http.ResponseWriter, r *http.Request) {
	q, leave, ok := beginOf(w, r, maxFlowsQuestion, func(q FlowsQuestion) *turns.Turns {
		if q.Flows.Follow {
			return h.followers
		}
		return h.flowTurns
	})
	if !ok {
		return
	}
	defer leave()
	control := http.NewResponseController(w)
	log := h.log.With("user", shortened(q.User), "networks", len(q.Flows.Networks), "namespaces", len(q.Flows.Namespaces), "all", q.All,
		"follow", q.Flows.Follow)
	log.Info("flows are asked for")
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	lasts := answerTime
	if q.Flows.Follow {
		lasts = h.followTime
	}
	ctx, enough := context.WithTimeoutCause(ctx, lasts, errLong)
	defer enough()
	out := &flowLines{w: w, control: control, follow: q.Flows.Follow}
	beating := out.beat(ctx, cancel)
	err := h.answers.Flows(ctx, q.Flows, func(f model.Flow) error { return out.write(FlowLine{Flow: &f}) })
	if q.Flows.Follow && errors.Is(context.Cause(ctx), errLong) {
		err = nil
	}
	cancel(nil)
	<-beating
	switch {
	case err != nil && !out.begun:
		log.Info("no flows are told", "error", err)
		refuseFor(w, err)
	case err != nil:
		_ = out.end(FlowLine{Error: err.Error()}) // Who asked may have gone.
	default:
		_ = out.end(FlowLine{End: true})
	}
}

// flowLines writes lines. Where somebody follows, each at once, and now and then one that says nothing.
type flowLines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	follow  bool

	mu    sync.Mutex
	begun bool
}

// beat says now and then that the agent is there, until ctx ends; the channel is closed then. A reader who does not take even
// that ends ctx.
func (l *flowLines) beat(ctx context.Context, end func(error)) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !l.follow {
			return
		}
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := l.write(FlowLine{}); err != nil {
					end(err)
					return
				}
			}
		}
	}()
	return done
}

func (l *flowLines) write(line FlowLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
	}
	if err := l.control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	if err := json.NewEncoder(l.w).Encode(line); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	if l.follow {
		if err := l.control.Flush(); err != nil {
			return fmt.Errorf("write a line: %w", err)
		}
	}
	return nil
}

// end writes the last line.
func (l *flowLines) end(line FlowLine) error {
	l.follow = true
	return l.write(line)
}

// Flows asks for flows of the node, and tells of each. Its error is an UnreachableError, a RefusedError, that of each, or that
// the answer is not whole. Who follows goes on until ctx ends.
func (c Client) Flows(ctx context.Context, q FlowsQuestion, each func(model.Flow) error) error {
	q.User = bounded(q.User)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Whoever says nothing for so long is away.
	patience := cmp.Or(c.patience, silence)
	still := time.AfterFunc(patience, func() { cancel(fmt.Errorf("node %s has said nothing for %s", c.Node, patience)) })
	defer still.Stop()
	body, err := c.ask(ctx, pathFlows, q)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	err = c.readFlows(body, q, func() { still.Reset(patience) }, each)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// readFlows reads an answer: no more than was asked for, and nothing about others.
func (c Client) readFlows(body io.Reader, q FlowsQuestion, heard func(), each func(model.Flow) error) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, maxLine), maxLine)
	told := 0
	for scanner.Scan() {
		heard()
		var line FlowLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
		}
		switch {
		case line.End:
			return nil
		case line.Error != "":
			return &RefusedError{What: fmt.Sprintf("node %s: %s", c.Node, line.Error)}
		case line.Flow == nil:
			continue
		case !q.Flows.Asks(*line.Flow):
			return fmt.Errorf("read the answer of node %s: it has a flow of Network %q and pod %q, for which nobody has asked", c.Node,
				line.Flow.Network, line.Flow.Pod)
		}
		if told++; told > q.Flows.Limit && !q.Flows.Follow {
			return fmt.Errorf("read the answer of node %s: it has more than was asked for", c.Node)
		}
		if err := each(*line.Flow); err != nil {
			return err
		}
		heard()
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
	}
	return fmt.Errorf("read the answer of node %s: it is not whole", c.Node)
}
