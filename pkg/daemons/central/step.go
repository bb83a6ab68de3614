package central

import (
	"context"
	"errors"
)

// wait logs what the member waits for, and makes an Event of it where the step asks for one.
func (k *Keeper) wait(ctx context.Context, step Step) {
	if step.Tell && step.Reason != k.said {
		if err := k.store.warn(ctx, k.o.Node, "DatabaseLost", step.Reason); err != nil {
			k.o.Log.WarnContext(ctx, "no Event", "error", err)
		}
	}
	k.say(ctx, step.Reason)
}

// join makes a draft that joins the members which have a database. It returns false while there is none.
func (k *Keeper) join(ctx context.Context, s Situation) (again bool, err error) {
	var others []string
	for _, m := range s.Record.Members {
		if m.Node != k.o.Node && m.ServerID != "" && !m.Lost {
			others = append(others, m.raftAddress(k.o.Kind))
		}
	}
	if len(others) == 0 {
		k.say(ctx, "waiting until another member has a database")
		return false, nil
	}
	return true, k.files.join(ctx, s.Record.ClusterID, s.wanted(), others)
}

// correct writes a record in place of the one that was read. That another member was faster, or that it fails, is no reason to stop.
func (k *Keeper) correct(ctx context.Context, read, right Database) {
	if err := k.store.Swap(ctx, k.o.Kind, read, right); err != nil && !errors.Is(err, errMoved) {
		k.o.Log.WarnContext(ctx, "record not written", "error", err)
	}
}
