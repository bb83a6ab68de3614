//go:build e2e

package hostile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// attempt does what an attacker does, once. It returns what the attacker has then, in words, or nothing where the attack
// was held. An error says that it could not be tried, which shows nothing.
type attempt func(ctx context.Context) (got string, err error)

// attack is one thing that somebody tries who must not have it.
type attack struct {
	name string
	try  attempt
}

// defence is what holds attacks.
type defence struct {
	// name is the row, the rule, the policy or the right.
	name string
	// out takes it out and returns what puts it back, which is called once.
	out func(t *testing.T) (back func())
}

// atOnce bounds the attempts that are made at once.
const atOnce = 18

// holds tries attacks with the defence, without it and with it again. All have to be held by this one alone.
func (d defence) holds(t *testing.T, attacks ...attack) {
	t.Helper()
	d.stands(t, func(ctx context.Context, judge func(got string) error) error { return all(ctx, attacks, judge) })
	for _, a := range attacks {
		t.Logf("held by %s, and by nothing else: %s", d.name, a.name)
	}
}

// stands is holds for whatever can be tried: try returns what the judge of each attack finds wrong.
func (d defence) stands(t *testing.T, try func(ctx context.Context, judge func(got string) error) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Patience)
	defer cancel()
	if err := try(ctx, held); err != nil {
		t.Fatal(err)
	}
	back := sync.OnceFunc(d.out(t))
	t.Cleanup(back)
	cluster.Eventually(t, cluster.Patience, "the control: without "+d.name+" each attack succeeds", func(ctx context.Context) error {
		return try(ctx, succeeded)
	})
	back()
	cluster.Eventually(t, cluster.Patience, "held again by "+d.name, func(ctx context.Context) error {
		return try(ctx, held)
	})
}

func held(got string) error {
	if got != "" {
		return errors.New(got)
	}
	return nil
}

func succeeded(got string) error {
	if got == "" {
		return errors.New("it fails")
	}
	return nil
}

// all tries attacks, and returns what judge finds wrong.
func all(ctx context.Context, attacks []attack, judge func(got string) error) error {
	return each(attacks, func(a attack) error {
		got, err := a.try(ctx)
		if err != nil {
			return fmt.Errorf("try %s: %w", a.name, err)
		}
		if err := judge(got); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		return nil
	})
}

// each does something with many, some at once, and returns all errors in their order.
func each[T any](many []T, do func(T) error) error {
	var doing errgroup.Group
	doing.SetLimit(atOnce)
	wrong := make([]error, len(many))
	for i, one := range many {
		doing.Go(func() error {
			wrong[i] = do(one)
			return nil
		})
	}
	_ = doing.Wait()
	return errors.Join(wrong...)
}
