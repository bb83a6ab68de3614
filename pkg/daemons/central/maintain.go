package central

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// electionTimer is how long a follower hears nothing until it wants to lead. A southbound server can be busy with one transaction
// for seconds.
func electionTimer(kind Kind) time.Duration {
	if kind == Northbound {
		return 4 * time.Second
	}
	return 10 * time.Second
}

// maintain does what the cluster needs now and then; what fails is tried again.
func (k *Keeper) maintain(ctx context.Context, s Status) {
	tasks := []func(context.Context, Status) error{k.compact}
	if s.Leads() {
		tasks = append(tasks, k.remove, k.relay, k.raiseTimer, k.convert)
	} else {
		clear(k.leaving)
	}
	for _, task := range tasks {
		if err := task(ctx, s); err != nil && ctx.Err() == nil {
			k.o.Log.WarnContext(ctx, "maintenance", "error", err)
		}
	}
}

// remove takes servers out of the cluster whose disk was lost, or whose node is gone. Only a leader does it: one that has a quorum.
func (k *Keeper) remove(ctx context.Context, s Status) error {
	out, err := k.store.shutOut(ctx)
	if err != nil {
		return err
	}
	for _, m := range k.seen.Members {
		if m.Node == k.o.Node {
			continue
		}
		gone, err := k.isGone(ctx, m.Node, out)
		if err != nil {
			return err
		}
		if !gone && !m.Lost {
			continue
		}
		if m.ServerID != "" && s.has(k.o.Kind, m) {
			k.o.Log.WarnContext(ctx, "removing a server from the cluster", "node", m.Node, "server", m.ServerID, "lost", m.Lost, "gone", gone)
			if _, err := ask(ctx, controlSocket(k.o.Run, k.o.Kind), "cluster/kick", k.o.Kind.Schema(), m.ServerID); err != nil {
				return err
			}
			delete(k.leaving, m.ServerID)
			// One at a time; the record follows when the cluster has agreed.
			return nil
		}
		if m.ServerID != "" {
			if _, known := k.leaving[m.ServerID]; !known {
				k.leaving[m.ServerID] = s.LogEnd
			}
			if !s.committed(k.leaving[m.ServerID]) {
				return nil
			}
		}
		to := k.seen.without(m.Node)
		if !gone {
			m.ServerID, m.Lost, m.Raft = "", false, ""
			to = to.with(m)
		}
		if err := k.store.Swap(ctx, k.o.Kind, k.seen, to); err != nil && !errors.Is(err, errMoved) {
			return err
		}
		delete(k.leaving, m.ServerID)
		return nil
	}
	return nil
}

// relay has members join anew that are reached directly. It begins when each member has relays. The leader marks one member at a
// time as lost, and that member moves its file aside and joins with an empty one. The leader itself is the last: it hands over
// first. A cluster of fewer than three stays as it is, for it would have no quorum meanwhile.
func (k *Keeper) relay(ctx context.Context, s Status) error {
	if len(s.Servers) != len(k.seen.Members) || !s.hearsAll() {
		return nil
	}
	for _, m := range k.seen.Members {
		if m.Raft != Direct || m.Node == k.o.Node || m.Lost || !k.seen.mayLeave(m.Node) {
			continue
		}
		m.Lost = true
		k.o.Log.InfoContext(ctx, "a member is to join anew, to be reached by relays", "node", m.Node)
		if err := k.store.Swap(ctx, k.o.Kind, k.seen, k.seen.with(m)); err != nil && !errors.Is(err, errMoved) {
			return err
		}
		return nil
	}
	if me, _ := k.seen.Member(k.o.Node); me.Raft == Direct && k.seen.mayLeave(k.o.Node) {
		return k.handOver(ctx)
	}
	return nil
}

// isGone reports whether a node has had no object for long enough, or is shut out.
func (k *Keeper) isGone(ctx context.Context, node string, out shutout.List) (bool, error) {
	if _, is := out[node]; is {
		return true, nil
	}
	gone, err := k.store.nodeGone(ctx, node)
	if err != nil || !gone {
		delete(k.gone, node)
		return false, err
	}
	since, known := k.gone[node]
	if !known {
		k.gone[node] = time.Now()
		return false, nil
	}
	return time.Since(since) >= k.o.GoneAfter, nil
}

// raiseTimer brings the election timer of a cluster that was made with another one to ours: a step may at most double it.
func (k *Keeper) raiseTimer(ctx context.Context, s Status) error {
	want := electionTimer(k.o.Kind)
	if s.ElectionTimer >= want || s.ElectionTimer == 0 {
		return nil
	}
	next := min(want, 2*s.ElectionTimer)
	_, err := ask(ctx, controlSocket(k.o.Run, k.o.Kind), "cluster/change-election-timer", k.o.Kind.Schema(),
		strconv.FormatInt(next.Milliseconds(), 10))
	return err
}

// compact makes the file as small as its content, at a time of its own for each member, and never on the leader while there are
// others: it hands over first.
func (k *Keeper) compact(ctx context.Context, s Status) error {
	place := slices.IndexFunc(k.seen.Members, func(m Member) bool { return m.Node == k.o.Node })
	if !compactionDue(time.Now(), k.compacted, k.o.CompactEvery, place, len(k.seen.Members)) {
		return nil
	}
	if s.Leads() && len(s.Servers) > 1 {
		return k.handOver(ctx)
	}
	k.compacted = time.Now()
	k.o.Log.InfoContext(ctx, "compaction")
	_, err := ask(ctx, controlSocket(k.o.Run, k.o.Kind), "ovsdb-server/compact", k.o.Kind.Schema())
	return err
}

// compactionDue reports whether a member's time has come since it compacted last: each period has a part of its own for each member.
func compactionDue(now, last time.Time, every time.Duration, place, members int) bool {
	if place < 0 || members == 0 {
		return false
	}
	slot := now.Truncate(every).Add(every * time.Duration(place) / time.Duration(members))
	return !now.Before(slot) && last.Before(slot)
}

// convert brings the database to the image's schema when that is newer.
func (k *Keeper) convert(ctx context.Context, _ Status) error {
	if k.converted {
		return nil
	}
	server := "unix:" + databaseSocket(k.o.Run, k.o.Kind)
	ours, err := k.files.tool(ctx, "schema-version", k.files.schema())
	if err != nil {
		return err
	}
	theirs, err := k.files.run(ctx, "ovsdb-client", "get-schema-version", server, k.o.Kind.Schema())
	if err != nil {
		return err
	}
	newer, err := newerVersion(ours, theirs)
	if err != nil {
		return err
	}
	if newer {
		k.o.Log.InfoContext(ctx, "the database takes the image's schema", "from", theirs, "to", ours)
		if _, err := k.files.run(ctx, "ovsdb-client", "--timeout=600", "convert", server, k.files.schema()); err != nil {
			return err
		}
	}
	k.converted = true
	return nil
}

// newerVersion compares versions of schemas (RFC 7047, <version>).
func newerVersion(a, b string) (bool, error) {
	x, err := version(a)
	if err != nil {
		return false, err
	}
	y, err := version(b)
	if err != nil {
		return false, err
	}
	return slices.Compare(x, y) > 0, nil
}

func version(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("read schema version %q", text)
		}
		out = append(out, n)
	}
	return out, nil
}
