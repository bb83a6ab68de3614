package wait

import (
	"context"
	"fmt"
	"testing"
)

// Attack is something that must not arrive, and how one knows that it would have arrived by now.
type Attack struct {
	// Send sends the attack. It does not wait for an answer.
	Send func()
	// Marker sends a marker by a way that is permitted, and as slow as the attack's or slower. It returns nil when the marker has
	// arrived. It is called again if it did not, and its context ends with the patience.
	Marker func(ctx context.Context) error
	// Came returns what of the attack has arrived so far, and "" for nothing. It does not wait.
	Came func() string
}

// rounds is how often an attack is sent. The first packet of a flow takes the slow path of Open vSwitch and may be overtaken by a
// marker whose flow is cached; the second is not.
const rounds = 2

// Never sends an attack, then its marker, and judges when the marker has arrived: no span of time decides. An attack whose marker
// does not arrive is a failure: it is not known whether the attack would have.
func Never(t testing.TB, what string, attack Attack) {
	t.Helper()
	if err := here.never(t.Context(), attack); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func (m machine) never(ctx context.Context, a Attack) error {
	var unknown error
	for range rounds {
		a.Send()
		if unknown = m.eventually(ctx, Patience, a.Marker); unknown != nil {
			break
		}
	}
	if came := a.Came(); came != "" {
		return fmt.Errorf("the attack arrived: %s", came)
	}
	if unknown != nil {
		return fmt.Errorf("not known: the marker does not arrive: %w", unknown)
	}
	return nil
}
