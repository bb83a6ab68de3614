package central

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// remember writes what was read last beside what it is about, for a start while there is no API server: that one may need the pods'
// network to come up, or this very machine. What fails is only logged: it costs nothing but such a start.
func remember(path string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("remember the record: %w", err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("remember the record: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("remember the record: %w", err)
	}
	return nil
}

func recall(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("recall the record: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("recall the record: %w", err)
	}
	return nil
}

// memory is where a member's part of the record is remembered.
func (k *Keeper) memory() string { return k.files.database() + ".record" }

// know takes a record that was read over.
func (k *Keeper) know(ctx context.Context, d Database) {
	k.seen = d
	addresses := d.Addresses()
	k.addresses.Store(&addresses)
	if err := remember(k.memory(), d); err != nil {
		k.o.Log.WarnContext(ctx, "a start without the API server will not work", "error", err)
	}
}

// fromMemory is the situation by the record as it was seen last, if the member has a file that serves by it. Nothing else is
// decided without the API server: nobody joins, leaves or makes a cluster by what may be out of date. Whoever was removed
// meanwhile is refused by the others.
func (k *Keeper) fromMemory(s Situation) (Situation, bool) {
	if s.File.Form != Clustered || recall(k.memory(), &s.Record) != nil || s.Record.validate() != nil {
		return s, false
	}
	if me, member := s.Record.Member(k.o.Node); member && me.Raft == "" {
		// What was seen last was of a version without relays.
		me.Raft, _ = s.raft(s.File.Address)
		s.Record = s.Record.with(me)
	}
	return s, Decide(s).Action == Serve
}
