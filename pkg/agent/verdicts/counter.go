// Package verdicts counts what policies decide on a node: the packets that the flows have matched that OVN made of their ACLs.
//
//	southbound database: logical flows -> cookies, and whose they are
//	the bridge: cookies -> packets
//
// Out go counts, rule by rule, to whoever asks, and series to a monitoring system. Nothing is done unless somebody asks.
package verdicts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/openflow"
)

const (
	// countTime bounds one count: both databases and the bridge.
	countTime = 5 * time.Second
	// countAge is how old a count may be that is given to somebody who asks.
	countAge = time.Second
	// judgesAge is how old the list of logical flows may be that metrics are counted with. Reading it costs the southbound
	// database's server a look at each of its logical flows, and every node asks.
	judgesAge = time.Minute
	// judgesAgeNow is the same for a person who asks.
	judgesAgeNow = 2 * time.Second
)

// Counter counts on one node. One goroutine, that of Serve, owns everything.
type Counter struct {
	config Config
	asked  chan question

	judges []ovsdb.Judges
	readAt time.Time
	// last is what each cookie had at the last count, total what has been counted.
	last  map[uint64]uint64
	total map[nb.Origin]uint64
	// tables are those of the bridge, by stage.
	tables  map[string]uint8
	counted time.Time
	// said is the last reason that was logged; empty when all is well.
	said string
}

// Config is where a Counter counts.
type Config struct {
	Node string
	// Southbound has somebody read the southbound database.
	Southbound func(ctx context.Context, read func(*ovsdb.Reader) error) error
	// Socket is where ovs-vswitchd answers for the bridge.
	Socket string
	Log    *slog.Logger
}

// question is somebody's, who takes one answer.
type question struct {
	// now: what has just changed counts, and drops are told by pod.
	now   bool
	reply chan<- answer
}

type answer struct {
	counts []model.VerdictCount
	err    error
}

// New makes a Counter; Serve has it count.
func New(config Config) *Counter {
	return &Counter{config: config, asked: make(chan question), last: map[uint64]uint64{}, total: map[nb.Origin]uint64{}}
}

// Serve answers until ctx ends.
func (c *Counter) Serve(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-c.asked:
			counts, err := c.count(ctx, q.now)
			c.complain(err)
			q.reply <- answer{counts, err}
		}
	}
}

// complain logs why nothing can be counted, once for each reason: monitoring systems ask all the time.
func (c *Counter) complain(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != "" && reason != c.said {
		c.config.Log.Warn("packets of policies not counted", "error", err)
	}
	c.said = reason
}

// Ask asks Serve. With now, what has just changed counts, and drops are told by pod.
func (c *Counter) Ask(ctx context.Context, now bool) ([]model.VerdictCount, error) {
	reply := make(chan answer, 1)
	select {
	case c.asked <- question{now, reply}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-reply:
		return a.counts, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Counter) count(ctx context.Context, now bool) ([]model.VerdictCount, error) {
	if !now && time.Since(c.counted) < countAge {
		return c.list(nil), nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	// The southbound database may be away; what is known of it still counts.
	unread := c.readJudges(ctx, now)
	if unread != nil && c.judges == nil {
		return nil, unread
	}
	bridge, err := openflow.Dial(ctx, c.config.Socket)
	if err != nil {
		return nil, errors.Join(err, unread)
	}
	defer bridge.Close()
	if err := c.read(ctx, bridge); err != nil {
		return nil, errors.Join(err, unread)
	}
	c.counted = time.Now()
	if !now {
		return c.list(nil), unread
	}
	pods, err := c.dropsByPod(ctx, bridge)
	return c.list(pods), errors.Join(unread, err)
}

// readJudges asks the southbound database for the logical flows that judge, if what is known of them is too old.
func (c *Counter) readJudges(ctx context.Context, now bool) error {
	age := judgesAge
	if now {
		age = judgesAgeNow
	}
	if c.judges != nil && time.Since(c.readAt) < age {
		return nil
	}
	return c.config.Southbound(ctx, func(r *ovsdb.Reader) error {
		judges, err := r.Judges(ctx)
		if err == nil {
			c.judges, c.readAt, c.tables = judges, time.Now(), nil
		}
		return err
	})
}

// read asks the bridge for the packets of every flow that judges, and adds what is new.
//
// A count that is lower than the last one is that of flows which were made anew, or of fewer: what it was before is not
// counted twice, and what some of the flows may have had meanwhile is not counted at all.
func (c *Counter) read(ctx context.Context, bridge *openflow.Conn) error {
	if c.tables == nil {
		if err := c.findTables(ctx, bridge); err != nil {
			return err
		}
	}
	type asked struct {
		cookie uint64
		origin nb.Origin
	}
	var all []asked
	var selections []openflow.Selection
	known := map[nb.Origin]bool{}
	for _, j := range c.judges {
		table, there := c.tables[j.Stage]
		for cookie, origin := range j.Flows {
			known[origin] = true
			if there {
				all = append(all, asked{cookie, origin})
				selections = append(selections, openflow.Selection{Cookie: cookie, Table: table})
			}
		}
	}
	counts, err := bridge.Counts(ctx, selections)
	if err != nil {
		return fmt.Errorf("count packets: %w", err)
	}
	last := map[uint64]uint64{}
	for i, a := range all {
		if counts[i].Flows == 0 {
			continue
		}
		if before := c.last[a.cookie]; counts[i].Packets > before {
			c.total[a.origin] += counts[i].Packets - before
		} else if _, has := c.total[a.origin]; !has {
			c.total[a.origin] = 0
		}
		last[a.cookie] = counts[i].Packets
	}
	c.last = last
	maps.DeleteFunc(c.total, func(o nb.Origin, _ uint64) bool { return !known[o] })
	return nil
}

// findTables finds in which table of the bridge each stage is: the numbers differ from one version of OVN to the next. That
// of a stage is where the flows are of its logical flows that every switch has. A bridge without a switch has none.
func (c *Counter) findTables(ctx context.Context, bridge *openflow.Conn) error {
	tables := map[string]uint8{}
	for _, j := range c.judges {
		for _, cookie := range j.Others {
			flows, err := bridge.Flows(ctx, openflow.Selection{Cookie: cookie, Table: openflow.AnyTable})
			if err != nil {
				return fmt.Errorf("find table of %s: %w", j.Stage, err)
			}
			if len(flows) == 0 || slices.ContainsFunc(flows, func(f openflow.Flow) bool { return f.Table != flows[0].Table }) {
				continue
			}
			tables[j.Stage] = flows[0].Table
			break
		}
	}
	c.tables = tables
	return nil
}

// dropsByPod tells what isolation dropped by the pods that it was dropped for: each has flows of its own.
func (c *Counter) dropsByPod(ctx context.Context, bridge *openflow.Conn) (map[nb.Origin]map[string]uint64, error) {
	byPort := map[nb.Origin]map[ovsdb.PortNumbers]uint64{}
	for _, j := range c.judges {
		table, there := c.tables[j.Stage]
		for cookie, origin := range j.Flows {
			if !there || c.last[cookie] == 0 || origin.Policy != nb.Isolation && origin.Rule != nb.RuleIsolation {
				continue
			}
			flows, err := bridge.Flows(ctx, openflow.Selection{Cookie: cookie, Table: table})
			if err != nil {
				return nil, fmt.Errorf("list flows of isolation: %w", err)
			}
			if byPort[origin] == nil {
				byPort[origin] = map[ovsdb.PortNumbers]uint64{}
			}
			for _, f := range flows {
				if port := max(f.InPort, f.OutPort); port != 0 && f.Packets > 0 {
					byPort[origin][ovsdb.PortNumbers{Datapath: f.Datapath, Port: port}] += f.Packets
				}
			}
		}
	}
	if len(byPort) == 0 {
		return nil, nil
	}
	out := map[nb.Origin]map[string]uint64{}
	return out, c.config.Southbound(ctx, func(r *ovsdb.Reader) error {
		names, err := r.Ports(ctx, c.config.Node)
		if err != nil {
			return err
		}
		for origin, ports := range byPort {
			out[origin] = map[string]uint64{}
			for numbers, packets := range ports {
				if name := names[numbers]; name != "" {
					out[origin][name] += packets
				}
			}
		}
		return nil
	})
}

// list is what has been counted, in order.
func (c *Counter) list(pods map[nb.Origin]map[string]uint64) []model.VerdictCount {
	out := make([]model.VerdictCount, 0, len(c.total))
	for o, packets := range c.total {
		out = append(out, model.VerdictCount{
			Network: o.Network, Policy: o.Policy, Direction: o.Direction, Rule: o.Rule, Verdict: o.Verdict, Packets: packets, Pods: pods[o],
		})
	}
	slices.SortFunc(out, compare)
	return out
}

func compare(a, b model.VerdictCount) int {
	key := func(c model.VerdictCount) string {
		return strings.Join([]string{c.Network, c.Policy, c.Direction, c.Rule, c.Verdict}, "\x00")
	}
	return strings.Compare(key(a), key(b))
}
