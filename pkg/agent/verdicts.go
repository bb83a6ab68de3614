package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/pkg/openflow"
	"github.com/atoll-net/atoll/pkg/ovsdb"
	"github.com/atoll-net/atoll/pkg/vswitch"
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

// verdicts counts what policies decide on this node: the packets that the flows have matched that OVN made of their ACLs.
//
//	southbound database: logical flows -> cookies, and whose they are
//	the bridge: cookies -> packets
//
// Nothing is done unless somebody asks. One goroutine, that of serve, owns everything.
type verdicts struct {
	node string
	// southbound gives the addresses of the database, socket the bridge's.
	southbound func(context.Context) ([]string, error)
	socket     string
	log        *slog.Logger
	asked      chan verdictQuestion

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

// verdictQuestion is somebody's, who takes one answer.
type verdictQuestion struct {
	// now: what has just changed counts, and drops are told by pod.
	now   bool
	reply chan<- verdictAnswer
}

type verdictAnswer struct {
	counts []model.VerdictCount
	err    error
}

func newVerdicts(node, socket string, southbound func(context.Context) ([]string, error), log *slog.Logger) *verdicts {
	return &verdicts{
		node: node, socket: socket, southbound: southbound, log: log, asked: make(chan verdictQuestion),
		last: map[uint64]uint64{}, total: map[nb.Origin]uint64{},
	}
}

// bridgeSocket is where ovs-vswitchd answers for a bridge: beside its database's socket.
func bridgeSocket(database, bridge string) string {
	path, _ := strings.CutPrefix(database, "unix:")
	return filepath.Join(filepath.Dir(path), bridge+".mgmt")
}

// southboundOf says where the southbound database is: where we are told, or where the node's ovn-controller finds it.
func southboundOf(told string, ovs *vswitch.Client) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		servers := told
		if servers == "" {
			var err error
			if servers, err = ovs.Southbound(ctx); err != nil {
				return nil, err
			}
		}
		return strings.Split(servers, ","), nil
	}
}

// serve answers until ctx ends.
func (v *verdicts) serve(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-v.asked:
			counts, err := v.count(ctx, q.now)
			v.complain(err)
			q.reply <- verdictAnswer{counts, err}
		}
	}
}

// complain logs why nothing can be counted, once for each reason: monitoring systems ask all the time.
func (v *verdicts) complain(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != "" && reason != v.said {
		v.log.Warn("packets of policies not counted", "error", err)
	}
	v.said = reason
}

// ask asks serve.
func (v *verdicts) ask(ctx context.Context, now bool) ([]model.VerdictCount, error) {
	reply := make(chan verdictAnswer, 1)
	select {
	case v.asked <- verdictQuestion{now, reply}:
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

func (v *verdicts) count(ctx context.Context, now bool) ([]model.VerdictCount, error) {
	if !now && time.Since(v.counted) < countAge {
		return v.list(nil), nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	// The southbound database may be away; what is known of it still counts.
	unread := v.readJudges(ctx, now)
	if unread != nil && v.judges == nil {
		return nil, unread
	}
	bridge, err := openflow.Dial(ctx, v.socket)
	if err != nil {
		return nil, errors.Join(err, unread)
	}
	defer bridge.Close()
	if err := v.read(ctx, bridge); err != nil {
		return nil, errors.Join(err, unread)
	}
	v.counted = time.Now()
	if !now {
		return v.list(nil), unread
	}
	pods, err := v.dropsByPod(ctx, bridge)
	return v.list(pods), errors.Join(unread, err)
}

// readJudges asks the southbound database for the logical flows that judge, if what is known of them is too old.
func (v *verdicts) readJudges(ctx context.Context, now bool) error {
	age := judgesAge
	if now {
		age = judgesAgeNow
	}
	if v.judges != nil && time.Since(v.readAt) < age {
		return nil
	}
	return v.withReader(ctx, func(r *ovsdb.Reader) error {
		judges, err := r.Judges(ctx)
		if err == nil {
			v.judges, v.readAt, v.tables = judges, time.Now(), nil
		}
		return err
	})
}

func (v *verdicts) withReader(ctx context.Context, read func(*ovsdb.Reader) error) error {
	addresses, err := v.southbound(ctx)
	if err != nil {
		return err
	}
	r, err := ovsdb.OpenReader(ctx, ovsdb.Config{Addresses: addresses, Log: v.log})
	if err != nil {
		return err
	}
	defer r.Close()
	return read(r)
}

// read asks the bridge for the packets of every flow that judges, and adds what is new.
//
// A count that is lower than the last one is that of flows which were made anew, or of fewer: what it was before is not
// counted twice, and what some of the flows may have had meanwhile is not counted at all.
func (v *verdicts) read(ctx context.Context, bridge *openflow.Conn) error {
	if v.tables == nil {
		if err := v.findTables(ctx, bridge); err != nil {
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
	for _, j := range v.judges {
		table, there := v.tables[j.Stage]
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
		if before := v.last[a.cookie]; counts[i].Packets > before {
			v.total[a.origin] += counts[i].Packets - before
		} else if _, has := v.total[a.origin]; !has {
			v.total[a.origin] = 0
		}
		last[a.cookie] = counts[i].Packets
	}
	v.last = last
	maps.DeleteFunc(v.total, func(o nb.Origin, _ uint64) bool { return !known[o] })
	return nil
}

// findTables finds in which table of the bridge each stage is: the numbers differ from one version of OVN to the next. That
// of a stage is where the flows are of its logical flows that every switch has. A bridge without a switch has none.
func (v *verdicts) findTables(ctx context.Context, bridge *openflow.Conn) error {
	tables := map[string]uint8{}
	for _, j := range v.judges {
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
	v.tables = tables
	return nil
}

// dropsByPod tells what isolation dropped by the pods that it was dropped for: each has flows of its own.
func (v *verdicts) dropsByPod(ctx context.Context, bridge *openflow.Conn) (map[nb.Origin]map[string]uint64, error) {
	byPort := map[nb.Origin]map[ovsdb.PortNumbers]uint64{}
	for _, j := range v.judges {
		table, there := v.tables[j.Stage]
		for cookie, origin := range j.Flows {
			if !there || v.last[cookie] == 0 || origin.Policy != nb.Isolation && origin.Rule != nb.RuleIsolation {
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
				if port := max(f.In, f.Out); port != 0 && f.Packets > 0 {
					byPort[origin][ovsdb.PortNumbers{Datapath: f.Datapath, Port: port}] += f.Packets
				}
			}
		}
	}
	if len(byPort) == 0 {
		return nil, nil
	}
	out := map[nb.Origin]map[string]uint64{}
	return out, v.withReader(ctx, func(r *ovsdb.Reader) error {
		names, err := r.Ports(ctx, v.node)
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
func (v *verdicts) list(pods map[nb.Origin]map[string]uint64) []model.VerdictCount {
	out := make([]model.VerdictCount, 0, len(v.total))
	for o, packets := range v.total {
		out = append(out, model.VerdictCount{
			Network: o.Network, Policy: o.Policy, Direction: o.Direction, Rule: o.Rule, Verdict: o.Verdict, Packets: packets, Pods: pods[o],
		})
	}
	slices.SortFunc(out, compareVerdicts)
	return out
}

func compareVerdicts(a, b model.VerdictCount) int {
	key := func(c model.VerdictCount) string {
		return strings.Join([]string{c.Network, c.Policy, c.Direction, c.Rule, c.Verdict}, "\x00")
	}
	return strings.Compare(key(a), key(b))
}
