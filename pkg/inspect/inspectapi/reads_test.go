package inspectapi

import (
	"context"
	"errors"
	"testing"

	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/trial"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/test/inspected"
)

// TestAnswersEndWithTheirContext: whoever has gone is not answered at length, whatever they asked for.
func TestAnswersEndWithTheirContext(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	closed := inspected.ClosedPolicy("red")
	from := snapshot.Sources{
		Held:     func() (snapshot.Held, error) { return w.HeldOf(), nil },
		Settings: func() (config.Settings, error) { return inspected.Explained(), nil },
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range map[string]func(context.Context) error{
		"networks": func(ctx context.Context) error { _, err := resources.Networks().List(ctx, from, ""); return err },
		"a network": func(ctx context.Context) error {
			_, _, err := resources.Networks().Get(ctx, from, "", "red")
			return err
		},
		"ipams":      func(ctx context.Context) error { _, err := resources.IPAMs().List(ctx, from, ""); return err },
		"ipamchecks": func(ctx context.Context) error { _, err := resources.IPAMChecks().List(ctx, from, ""); return err },
		"topologies": func(ctx context.Context) error { _, err := resources.Topologies().List(ctx, from, ""); return err },
		"pods":       func(ctx context.Context) error { _, err := resources.Pods().List(ctx, from, ""); return err },
		"a trial": func(ctx context.Context) error {
			_, err := answersFrom(from).Try(ctx, trial.Tried{closed.Key: closed}, nil, nil)
			return err
		},
	} {
		if err := ask(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("%s for who has gone: %v", name, err)
		}
		if err := ask(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
