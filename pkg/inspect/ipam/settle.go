package ipam

import (
	"context"
	"slices"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// pause is the time between two looks.
const pause = 500 * time.Millisecond

// Settle looks again and again until nothing is found any more that the first look found, or for as long as limit says. What
// every look has found, it returns: what is on its way goes meanwhile.
func Settle(
	ctx context.Context, limit time.Duration, look func(context.Context) ([]api.IPAMCheck, string, error),
) ([]api.IPAMCheck, string, error) {
	deadline := time.Now().Add(limit)
	all, note, err := look(ctx)
	for err == nil && slices.ContainsFunc(all, func(c api.IPAMCheck) bool { return len(c.Status.Findings) > 0 }) {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		select {
		case <-ctx.Done():
			return all, note, context.Cause(ctx)
		case <-time.After(min(pause, left)):
		}
		var next []api.IPAMCheck
		if next, note, err = look(ctx); err == nil {
			all = lasting(all, next)
		}
	}
	return all, note, err
}

// lasting are checks with what was found before and is found now.
func lasting(before, now []api.IPAMCheck) []api.IPAMCheck {
	was := map[string][]api.IPAMFinding{}
	for _, c := range before {
		was[c.Name] = c.Status.Findings
	}
	for i, c := range now {
		now[i].Status.Findings = slices.DeleteFunc(c.Status.Findings, func(f api.IPAMFinding) bool { return !slices.Contains(was[c.Name], f) })
	}
	return now
}
