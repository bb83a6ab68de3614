// Package flows keeps who talked to whom on a node in the last hour, and what policies decided about it: what Open vSwitch
// samples where ACLs of OVN judge.
//
//	Open vSwitch --IPFIX, loopback--> records --> store: minutes of each switch, bounded
//	southbound database --> whose an ACL and a switch are          |
//	                    and an address on that switch              +--> model.Flow, to whoever asks
//
// What must stay true:
//
//   - A record's Network is that of its datapath. An address alone means nobody, and a rule of another Network decides nothing here.
//   - What tenants send bounds nobody else's flows, and not the agent's memory: see store.
//   - Only what comes by the loopback interface is read. Nobody but this node can send that.
package flows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/ipfix"
)

const (
	// waiting is how many datagrams wait for the store.
	waiting = 1024
	// keepEvery is how often Open vSwitch's settings are looked at.
	keepEvery = 10 * time.Second
	// askTime bounds a look at the southbound database.
	askTime = 5 * time.Second
	// maxFollowers is how many may follow at a time, and maxFresh how many rows of a second they are told of.
	maxFollowers = 16
	maxFresh     = 1 << 12
	// toldTime is how long it is kept what followers were told, and maxTold how many rows of it.
	toldTime = 40 * time.Second
	maxTold  = 1 << 15
)

// ErrOff: nothing is sampled.
var ErrOff = errors.New("flows are not sampled: the AtollConfig's spec.flows.sampling is Off")

// ErrBlind: they should be, and Open vSwitch takes no samples. What was kept before is told.
var ErrBlind = errors.New("open vSwitch takes no samples on this node")

// ErrUnnamed: samples came, and nobody can say whose they are. Flows that are known are told before it.
var ErrUnnamed = errors.New("not known whose the other flows of this node are")

// Switch is the Open vSwitch of the node.
type Switch interface {
	// Sample has it send the samples that OVN takes to a UDP address, and Unsample has it send none.
	Sample(ctx context.Context, target netip.AddrPort) error
	Unsample(ctx context.Context) error
}

// Config is where flows come from.
type Config struct {
	// Node is the chassis whose pods are judged here.
	Node   string
	Switch Switch
	// Southbound has somebody read the southbound database.
	Southbound func(ctx context.Context, read func(*ovsdb.Reader) error) error
	// Lives reports whether a pod of the node, NAMESPACE/NAME, is there: an address may go to another one.
	Lives func(pod string) bool
	Log   *slog.Logger
}

// Flows are those of one node. One goroutine, that of Serve, owns the store.
type Flows struct {
	config  Config
	wanted  chan bool
	records chan []ipfix.Record
	asked   chan *asker

	store     *store
	names     names
	followers map[*asker]struct{}
	// fresh is what came since followers were told; beyond what maxFresh bounds nothing is in it.
	fresh map[freshKey]*count
	// told is what followers were told, the oldest first, for a follower that continues another connection. followed is when
	// somebody followed last.
	told     []toldRow
	followed time.Time
	// on: Open vSwitch is asked for samples; trouble is why it takes none, as far as it says so.
	on      bool
	trouble error
	stats   atomic.Pointer[stats]
	read    received
}

type freshKey struct {
	datapath uint32
	key      key
}

// toldRow is what followers were told at a time.
type toldRow struct {
	time time.Time
	key  freshKey
	*count
}

// New makes Flows that are off; Serve has them work.
func New(config Config) *Flows {
	return &Flows{
		config: config, wanted: make(chan bool, 1), records: make(chan []ipfix.Record, waiting), asked: make(chan *asker),
		store: newStore(), followers: map[*asker]struct{}{}, fresh: map[freshKey]*count{},
	}
}

// Want has flows be sampled, or not. It does not wait.
func (f *Flows) Want(on bool) {
	select {
	case <-f.wanted:
	default:
	}
	f.wanted <- on
}

// Serve works until ctx ends. Open vSwitch then goes on to send, to nobody, until another agent comes: its settings are the node's.
func (f *Flows) Serve(ctx context.Context) error {
	conn, err := listen(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.read.all(ctx, conn, f.records)
	}()
	defer func() {
		stop()
		_ = conn.Close()
		<-done
	}()
	target, ok := netip.AddrPort{}, false
	if address, isUDP := conn.LocalAddr().(*net.UDPAddr); isUDP {
		target, ok = address.AddrPort(), true
	}
	if !ok {
		return fmt.Errorf("listen for samples: %s is no address of UDP", conn.LocalAddr())
	}
	second, keep := time.NewTicker(time.Second), time.NewTicker(keepEvery)
	defer second.Stop()
	defer keep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case on := <-f.wanted:
			f.on = on
			f.keep(ctx, target)
		case <-keep.C:
			if f.on {
				f.keep(ctx, target)
			}
		case records := <-f.records:
			f.add(records, time.Now())
		case <-second.C:
			f.tick(ctx, time.Now())
		case a := <-f.asked:
			f.answer(ctx, a, time.Now())
		}
	}
}

// keep has Open vSwitch set up as it is to be.
func (f *Flows) keep(ctx context.Context, target netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := f.config.Switch.Unsample
	if f.on {
		err = func(ctx context.Context) error { return f.config.Switch.Sample(ctx, target) }
	}
	f.trouble = err(ctx)
	if err := f.trouble; err != nil {
		f.config.Log.Warn("open vSwitch not told of samples", "on", f.on, "error", err)
	}
}

func (f *Flows) add(records []ipfix.Record, now time.Time) {
	for _, r := range records {
		if !f.on {
			return
		}
		f.store.add(r, now, func(r ipfix.Record) string { return f.podOf(switchOf(r.Domain), keyOf(r)) })
		f.names.network(switchOf(r.Domain))
		f.names.origin(r.Point, "")
		if len(f.followers) == 0 && now.Sub(f.followed) > toldTime {
			continue
		}
		k := freshKey{switchOf(r.Domain), keyOf(r)}
		if f.fresh[k] == nil && len(f.fresh) < maxFresh {
			f.fresh[k] = &count{pod: f.podOf(k.datapath, k.key)}
		}
		if c := f.fresh[k]; c != nil {
			c.add(r, now)
		}
	}
}

// podOf is the pod that was judged; empty as long as that is not known.
func (f *Flows) podOf(datapath uint32, k key) string {
	origin, known := f.names.origin(k.point, f.names.network(datapath))
	if !known {
		return ""
	}
	address := k.destination
	if origin.Direction == model.PolicyEgress.String() {
		address = k.source
	}
	pod, known := f.names.known.Ports[ovsdb.PortAddress{Datapath: datapath, Address: address}]
	if !known || !f.config.Lives(pod) {
		// The address is new, or belongs to another pod now. Or it belongs to no pod, as a router's address: then it costs a question
		// now and then.
		f.names.missed = true
		return ""
	}
	return pod
}

// tick does what is done each second.
func (f *Flows) tick(ctx context.Context, now time.Time) {
	f.store.expire(now)
	age := askAge
	if len(f.followers) > 0 {
		age = askAgeNow
	}
	if f.on && f.names.missed && now.Sub(f.names.readAt) > age {
		f.ask(ctx, now)
	}
	f.tell(now)
	f.publish()
}

// ask asks the southbound database whose records are.
func (f *Flows) ask(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var found ovsdb.Sampled
	err := f.config.Southbound(ctx, func(r *ovsdb.Reader) (err error) {
		found, err = r.Sampled(ctx, f.config.Node)
		return err
	})
	if err != nil {
		// It is asked again when it would be.
		f.names.readAt, f.names.unread = now, err
		f.config.Log.Warn("not known whose samples are", "error", err)
		for a := range f.followers {
			a.end(f.names.unknown())
			delete(f.followers, a)
		}
		return
	}
	f.names.learn(found, f.store, now)
	f.name(now)
}

// name names the pods of what came before anybody knew whose it was.
func (f *Flows) name(now time.Time) {
	for datapath, h := range f.store.switches {
		for _, m := range h.minutes {
			for k, c := range m.rows {
				if c.pod == "" && k.source.IsValid() && now.Sub(c.last) < time.Minute {
					c.pod = f.podOf(datapath, k)
				}
			}
		}
	}
	f.names.missed = false
}
