package central

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables"

	"github.com/atoll-net/atoll/pkg/process/child"
)

// Options of a member's keeper.
type Options struct {
	Kind Kind
	// Node and Address are those of this member; the address is that of the node, at which others reach it.
	Node    string
	Address netip.Addr
	// Size is how many members the cluster is to have.
	Size int
	// Data holds the database, Run the sockets, Certificates what another program keeps there (see readIdentity).
	Data, Run, Certificates string
	// MemberNames is before a node's name in the CN of a member's certificate.
	MemberNames string
	Programs    Programs
	// CompactEvery is how often each member's file is compacted; 0 is a day.
	CompactEvery time.Duration
	// GoneAfter is how long a node must have no Node object until its server is removed from the cluster; 0 is 5 minutes.
	GoneAfter time.Duration
	Log       *slog.Logger
}

// ErrRefused says that a person must look: what is on this member's disk does not fit the record.
var ErrRefused = errors.New("refused")

// Keeper keeps one ovsdb-server of this node, a member of a cluster.
type Keeper struct {
	o     Options
	store Store
	files files
	// identity is replaced when certificates are renewed.
	identity atomic.Pointer[identity]
	// seen is the record as it was read last, and addresses are its members'.
	seen      Database
	addresses atomic.Pointer[[]netip.Addr]
	// said is what was last said of waiting.
	said string
	// relays are there while the server runs.
	relays *relays
	// gone says since when nodes have had no object.
	gone map[string]time.Time
	// leaving says of servers that the leader's list has no more, by id, up to where the log must be committed until the cluster has agreed.
	leaving   map[string]uint64
	compacted time.Time
	// converted: the schema was looked at, by this leader.
	converted bool
}

// look is how often a member that waits looks again, and one that serves at its server; glance, at the record.
const (
	look   = 500 * time.Millisecond
	glance = 2 * time.Second
	// farewell is how long a server may take to end.
	farewell = 15 * time.Second
)

// NewKeeper makes a keeper that Run starts.
func NewKeeper(store Store, o Options) *Keeper {
	if o.CompactEvery == 0 {
		o.CompactEvery = 24 * time.Hour
	}
	if o.GoneAfter == 0 {
		o.GoneAfter = 5 * time.Minute
	}
	return &Keeper{
		o: o, store: store, files: files{programs: o.Programs, kind: o.Kind, dir: o.Data}, gone: map[string]time.Time{},
		leaving: map[string]uint64{}, compacted: time.Now(),
	}
}

// Run keeps the member until ctx ends, which is no error. ErrRefused says that it must not go on.
func (k *Keeper) Run(ctx context.Context) error {
	err := k.keep(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	if errors.Is(err, ErrRefused) {
		if said := k.store.warn(ctx, k.o.Node, "DatabaseRefused", err.Error()); said != nil {
			k.o.Log.Warn("no Event", "error", said)
		}
	}
	return err
}

func (k *Keeper) keep(ctx context.Context) error {
	for _, dir := range []string{k.o.Data, k.o.Run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	id, err := awaitIdentity(ctx, k.o.Certificates, k.o.Kind, func(err error) { k.say(ctx, "waiting for certificates: "+err.Error()) })
	if err != nil {
		return err
	}
	if err := k.takeOver(id); err != nil {
		return err
	}
	for {
		again, err := k.step(ctx)
		if errors.Is(err, ErrRefused) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			k.say(ctx, err.Error())
		}
		if again && err == nil {
			continue
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}

// say logs what the member waits for when that is something new.
func (k *Keeper) say(ctx context.Context, what string) {
	if what != k.said {
		k.o.Log.InfoContext(ctx, "not serving", "why", what)
		k.said = what
	}
}

func (k *Keeper) situation(ctx context.Context) (Situation, error) {
	s := Situation{Kind: k.o.Kind, Node: k.o.Node, Address: k.o.Address, Size: k.o.Size}
	var err error
	if s.File, err = k.files.header(ctx, k.files.database()); err != nil {
		return s, err
	}
	if s.Draft, err = k.files.header(ctx, k.files.draft()); err != nil {
		return s, err
	}
	if s.Record, err = k.store.Get(ctx, k.o.Kind); err != nil {
		if by, ok := k.fromMemory(s); ok {
			k.o.Log.WarnContext(ctx, "the record cannot be read: serving by what was seen last", "error", err)
			return by, nil
		}
		return s, err
	}
	if s.Record.ClusterID == "" && s.Record.Bootstrap != "" && s.Record.Bootstrap != k.o.Node {
		s.Abandoned, err = k.store.nodeGone(ctx, s.Record.Bootstrap)
	}
	return s, err
}

// step does what is next. It returns true when there may be more to do at once.
func (k *Keeper) step(ctx context.Context) (again bool, err error) {
	s, err := k.situation(ctx)
	if err != nil {
		return false, err
	}
	step := Decide(s)
	switch step.Action {
	case Wait:
		k.wait(ctx, step)
		return false, nil
	case Refuse:
		return false, fmt.Errorf("%w: %s: %s", ErrRefused, k.files.database(), step.Reason)
	case WriteRecord:
		err := k.store.Swap(ctx, k.o.Kind, s.Record, step.Record)
		if errors.Is(err, errMoved) {
			return false, nil
		}
		if err == nil {
			k.o.Log.InfoContext(ctx, "record written", "why", step.Reason)
		}
		return true, err
	case CreateDraft:
		return true, k.files.create(ctx, s.wanted(), electionTimer(k.o.Kind))
	case JoinDraft:
		return k.join(ctx, s)
	case MoveDraft:
		to, err := k.files.moveAside(k.files.draft())
		if err == nil {
			k.o.Log.WarnContext(ctx, "draft of a database moved aside", "to", to, "why", step.Reason)
		}
		return true, err
	case MoveFile:
		to, err := k.files.moveAside(k.files.database())
		if err == nil {
			k.o.Log.WarnContext(ctx, "database moved aside", "to", to, "why", step.Reason)
		}
		return true, err
	case Promote:
		return true, k.files.rename(k.files.draft(), k.files.database())
	case Serve:
		k.know(ctx, s.Record)
		return false, k.serve(ctx)
	}
	return false, fmt.Errorf("do step %d: unknown", step.Action)
}

// serve runs the server until it ends, or ctx, or the record does not have it any more.
func (k *Keeper) serve(ctx context.Context) (err error) {
	if err := k.guard(k.seen); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A server that hands leadership over before it ends speaks with the others until then.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	k.relays = &relays{
		kind: k.o.Kind, node: k.o.Node, address: k.o.Address, run: k.o.Run, names: k.o.MemberNames, identity: &k.identity, member: k.isMember,
		log: k.o.Log, life: life, fail: cancel,
	}
	var relayed, proxied sync.WaitGroup
	defer func() {
		end()
		k.relays.stop()
		relayed.Wait()
	}()
	if err := k.relays.follow(k.seen); err != nil {
		return err
	}
	relayed.Go(func() { cancel(k.relays.serve()) })
	if err := k.boundClients(); err != nil {
		return err
	}
	server, err := k.startServer()
	if err != nil {
		return err
	}
	k.o.Log.InfoContext(ctx, "ovsdb-server runs", "pid", server.PID())
	k.said = ""
	if k.o.Kind == Southbound {
		proxied.Go(func() { cancel(k.serveFull(ctx)) })
	}
	go func() {
		select {
		case <-server.Done():
			cancel(fmt.Errorf("ovsdb-server ended: %w", server.Ended()))
		case <-ctx.Done():
		}
	}()
	err = k.attend(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(err)
	proxied.Wait()
	k.stopServer(context.WithoutCancel(ctx), server)
	return err
}

// serveFull is the proxy to the southbound database with all rights.
func (k *Keeper) serveFull(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(k.o.Address, FullPort).String())
	if err != nil {
		return fmt.Errorf("serve with full rights: %w", err)
	}
	return proxy{socket: databaseSocket(k.o.Run, k.o.Kind), identity: &k.identity, member: k.isMember, log: k.o.Log}.serve(ctx, listener)
}

// isMember reports whether an address is a member's. It may be called at any time.
func (k *Keeper) isMember(a netip.Addr) bool {
	addresses := k.addresses.Load()
	return addresses != nil && slices.Contains(*addresses, a)
}

// stopServer hands leadership over and ends the server.
func (k *Keeper) stopServer(ctx context.Context, server *child.Child) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if s, err := status(ctx, k.o.Run, k.o.Kind); err == nil && s.Leads() && len(s.Servers) > 1 {
		if err := k.handOver(ctx); err != nil {
			k.o.Log.WarnContext(ctx, "leadership not handed over", "error", err)
		}
	}
	server.End(farewell)
}

// handOver makes another member the leader, and returns when it is.
func (k *Keeper) handOver(ctx context.Context) error {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The name is that of a test, but it is what the server does before it compacts, too.
	if _, err := ask(ctx, controlSocket(k.o.Run, k.o.Kind), "cluster/failure-test", "transfer-leadership"); err != nil {
		return err
	}
	for {
		s, err := status(ctx, k.o.Run, k.o.Kind)
		if err != nil {
			return err
		}
		if !s.Leads() && s.Leader != "unknown" {
			return nil
		}
		if err := pause(ctx, look/10); err != nil {
			return err
		}
	}
}

func (k *Keeper) guard(d Database) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	return guard(conn, k.o.Kind, d.Addresses())
}

func (k *Keeper) boundClients() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	return boundClients(conn, k.o.Kind)
}

func (k *Keeper) certificateDir() string {
	return filepath.Join(k.o.Run, "ovn"+string(k.o.Kind)+"_db.tls")
}

func (k *Keeper) takeOver(id *identity) error {
	if err := id.lay(k.certificateDir()); err != nil {
		return err
	}
	k.identity.Store(id)
	return nil
}

// attend looks after a server that runs.
func (k *Keeper) attend(ctx context.Context) error {
	ready := errors.New("not asked yet")
	stale := false
	var read time.Time
	for {
		if err := pause(ctx, look); err != nil {
			return err
		}
		s, err := status(ctx, k.o.Run, k.o.Kind)
		now := err
		if err == nil {
			now = s.Ready()
		}
		if (now == nil) != (ready == nil) {
			k.o.Log.InfoContext(ctx, "readiness", "ready", now == nil, "why", now, "role", s.Role, "servers", len(s.Servers))
		}
		ready = now
		if err == nil && s.expelled() {
			if k.joinsAnew(ctx) {
				return errJoinsAnew
			}
			return fmt.Errorf(
				"%w: %s: the cluster has removed this server. Move the file away (do not delete it); the member then joins with an empty one",
				ErrRefused, k.files.database())
		}
		if time.Since(read) < glance {
			continue
		}
		read = time.Now()
		if stale, err = k.followCertificates(ctx, stale); err != nil {
			return err
		}
		if err := k.followRecord(ctx); err != nil {
			return err
		}
		if ready == nil {
			k.maintain(ctx, s)
		}
	}
}

// followRecord takes over other members' addresses. That the API server does not answer is no reason to stop.
func (k *Keeper) followRecord(ctx context.Context) error {
	d, err := k.store.Get(ctx, k.o.Kind)
	if err != nil {
		k.o.Log.DebugContext(ctx, "record not read", "error", err)
		return nil
	}
	if d.equal(k.seen) {
		return nil
	}
	if d.ClusterID == "" && len(d.Members) == 0 && !slices.Contains(d.Before, k.seen.ClusterID) {
		k.o.Log.WarnContext(ctx, "the record is lost: writing what was seen last")
		k.correct(ctx, d, k.seen)
		return nil
	}
	before, _ := k.seen.Member(k.o.Node)
	me, member := d.Member(k.o.Node)
	if d.ClusterID != k.seen.ClusterID || !member || me.ServerID != before.ServerID || me.Address != before.Address {
		// Decide says what is wrong.
		return errors.New("the record does not have this server any more")
	}
	if me.Lost && !before.Lost && before.Raft == Direct && d.mayLeave(k.o.Node) {
		return errJoinsAnew
	}
	if me.Raft != before.Raft {
		// A version that does not know how members are reached has written the record.
		me.Raft = before.Raft
		k.correct(ctx, d, d.with(me))
		return nil
	}
	if err := k.guard(d); err != nil {
		return err
	}
	if err := k.relays.follow(d); err != nil {
		return err
	}
	held := k.seen.Held
	k.know(ctx, d)
	if d.Held != held {
		k.o.Log.InfoContext(ctx, "nodes", "served", !d.Held)
		return k.reconfigure(ctx)
	}
	return nil
}

// joinsAnew reports whether the cluster has removed this member's server so that it joins anew.
func (k *Keeper) joinsAnew(ctx context.Context) bool {
	before, _ := k.seen.Member(k.o.Node)
	d, err := k.store.Get(ctx, k.o.Kind)
	if err != nil {
		k.o.Log.WarnContext(ctx, "record not read", "error", err)
		return false
	}
	me, member := d.Member(k.o.Node)
	return member && before.Raft == Direct && (me.Lost || me.ServerID == "") && d.mayLeave(k.o.Node)
}

// followCertificates takes renewed files over. stale says that the server has not shown the last ones yet.
func (k *Keeper) followCertificates(ctx context.Context, stale bool) (bool, error) {
	id, err := readIdentity(k.o.Certificates, k.o.Kind)
	if err != nil {
		k.o.Log.WarnContext(ctx, "certificates not read: the last ones stay", "error", err)
		return stale, nil
	}
	before := k.identity.Load()
	if before.same(id) {
		if !stale {
			return false, nil
		}
	} else {
		k.o.Log.InfoContext(ctx, "certificates renewed")
	}
	if err := k.takeOver(id); err != nil {
		return true, err
	}
	if before.drops(id) {
		return false, errors.New("a CA is trusted no more: ovsdb-server starts anew, for it forgets none")
	}
	if k.o.Kind == Southbound && k.seen.Held {
		return true, nil // There is no port to look at.
	}
	shown, err := id.shows(ctx, strings.TrimPrefix(Remote(k.o.Address, k.o.Kind.ClientPort()), "ssl:"))
	if err != nil || !shown {
		k.o.Log.DebugContext(ctx, "certificates not taken over yet", "error", err)
		return true, nil
	}
	return false, nil
}
