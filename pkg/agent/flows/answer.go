package flows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// behind is how many seconds a follower may be behind.
const behind = 8

// errBehind: whoever follows takes less than comes.
var errBehind = errors.New("what follows came faster than it was taken")

// errFollowers: there are as many followers as there may be.
var errFollowers = errors.New("too many follow the flows of this node")

// asker is somebody who asks. The answers are of one second each; they end when err has one.
type asker struct {
	question model.FlowQuestion
	answers  chan []model.Flow
	err      chan error
	// gone is closed by who asks.
	gone <-chan struct{}
}

// Ask hands the flows that are asked for to yield, the oldest first, until that fails, or ctx ends.
func (f *Flows) Ask(ctx context.Context, q model.FlowQuestion, yield func(model.Flow) error) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	a := &asker{question: q, answers: make(chan []model.Flow, behind), err: make(chan error, 1), gone: ctx.Done()}
	select {
	case f.asked <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		select {
		case some, more := <-a.answers:
			for _, flow := range some {
				if err := yield(flow); err != nil {
					return err
				}
			}
			if !more {
				select {
				case err := <-a.err:
					return err
				default:
					return nil
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answer gives what there is, and takes in who follows.
func (f *Flows) answer(ctx context.Context, a *asker, now time.Time) {
	// Who has left makes room at once: most who ask go on with what they followed a moment ago.
	maps.DeleteFunc(f.followers, func(other *asker, _ struct{}) bool { return other.left() })
	switch {
	case !f.on:
		a.end(ErrOff)
		return
	case a.question.Follow && len(f.followers) >= maxFollowers:
		a.end(errFollowers)
		return
	}
	f.store.expire(now)
	found := f.all(a.question, now)
	if f.names.missed && now.Sub(f.names.readAt) > askAgeNow {
		f.ask(ctx, now)
		found = f.all(a.question, now)
	}
	a.answers <- found
	if f.trouble != nil {
		a.end(fmt.Errorf("%w: %w", ErrBlind, f.trouble))
		return
	}
	if err := f.names.unknown(); err != nil || !a.question.Follow {
		a.end(err)
		return
	}
	f.followers[a], f.followed = struct{}{}, now
}

// left reports whether nobody listens any more.
func (a *asker) left() bool {
	select {
	case <-a.gone:
		return true
	default:
		return false
	}
}

func (a *asker) end(err error) {
	if err != nil {
		a.err <- err
	}
	close(a.answers)
}

// tell tells those who follow of what came since the last time.
func (f *Flows) tell(now time.Time) {
	for k, c := range f.fresh {
		if c.pod == "" {
			c.pod = f.podOf(k.datapath, k.key)
		}
	}
	f.keepTold(now)
	for a := range f.followers {
		if a.left() {
			delete(f.followers, a)
			continue
		}
		f.followed = now
		var some []model.Flow
		for k, c := range f.fresh {
			if flow := f.flow(k.datapath, now.Truncate(time.Minute), k.key, c); a.question.Asks(flow) {
				some = append(some, flow)
			}
		}
		if len(some) == 0 {
			continue
		}
		slices.SortFunc(some, model.Flow.Compare)
		select {
		case a.answers <- some:
		default:
			a.end(errBehind)
			delete(f.followers, a)
		}
	}
	clear(f.fresh)
}

// keepTold keeps what followers are told.
func (f *Flows) keepTold(now time.Time) {
	for k, c := range f.fresh {
		f.told = append(f.told, toldRow{now, k, c})
	}
	old := 0
	for old < len(f.told) && (now.Sub(f.told[old].time) > toldTime || len(f.told)-old > maxTold) {
		old++
	}
	f.told = slices.Delete(f.told, 0, old)
}

// again is what followers were told that is asked for.
func (f *Flows) again(q model.FlowQuestion, now time.Time) []model.Flow {
	out := []model.Flow{}
	for _, row := range f.told {
		if flow := f.flow(row.key.datapath, row.time.Truncate(time.Minute), row.key.key, row.count); now.Sub(row.time) <= q.Again &&
			q.Asks(flow) {
			out = append(out, flow)
		}
	}
	slices.SortFunc(out, model.Flow.Compare)
	return out
}

// all are the flows in the store that are asked for.
func (f *Flows) all(q model.FlowQuestion, now time.Time) []model.Flow {
	if q.Again > 0 {
		return f.again(q, now)
	}
	out := []model.Flow{}
	for datapath, h := range f.store.switches {
		for _, m := range h.minutes {
			for k, c := range m.rows {
				if age := now.Sub(c.last); q.Since > 0 && age > q.Since || q.Until > 0 && age < q.Until {
					continue
				}
				if flow := f.flow(datapath, m.begins, k, c); q.Asks(flow) {
					out = append(out, flow)
				}
			}
		}
	}
	slices.SortFunc(out, model.Flow.Compare)
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out
}

func (f *Flows) flow(datapath uint32, begins time.Time, k key, c *count) model.Flow {
	network := f.names.network(datapath)
	origin, _ := f.names.origin(k.point, network)
	return model.Flow{
		Network: network, Direction: origin.Direction, Policy: origin.Policy, Rule: origin.Rule, Verdict: origin.Verdict, Pod: c.pod,
		Source: k.source, Destination: k.destination, Protocol: protocolName(k.protocol), Port: k.port,
		Minute: begins, Last: c.last, Connections: c.connections, Packets: c.packets, Bytes: c.bytes,
	}
}

// protocolName is the name of a protocol of IP; its number where it has none here.
func protocolName(number uint8) string {
	switch number {
	case 0:
		return ""
	case 1:
		return "icmp"
	case 6:
		return "tcp"
	case 17:
		return "udp"
	case 58:
		return "icmp6"
	case 132:
		return "sctp"
	}
	return strconv.Itoa(int(number))
}
