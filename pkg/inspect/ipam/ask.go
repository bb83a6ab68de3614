package ipam

import (
	"context"
	"errors"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// IPAMs are what is known of addresses, of each Network and of the cluster.
func List(ctx context.Context, s snapshot.Sources) ([]api.IPAM, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return nil, err
	}
	return list(held), snapshot.Ended(ctx)
}

// IPAM is that of one Network, or of the cluster, with who holds which address; false when there is none.
func Get(ctx context.Context, s snapshot.Sources, name string) (api.IPAM, bool, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return api.IPAM{}, false, err
	}
	out, there := get(held, name)
	return out, there, snapshot.Ended(ctx)
}

// IPAMChecks are what is wrong with addresses, in each Network and in the cluster.
func Checks(ctx context.Context, s snapshot.Sources) ([]api.IPAMCheck, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return nil, err
	}
	if s.Mirror == nil {
		return checks(held, nil, notAsked), snapshot.Ended(ctx)
	}
	reading, cancel := context.WithTimeout(ctx, snapshot.MirrorPatience)
	defer cancel()
	var out []api.IPAMCheck
	if err := s.Mirror.Use(reading, func(rows snapshot.Northbound) error {
		out = checks(held, rows, "")
		return nil
	}); err != nil {
		why := snapshot.NotAnswering("northbound")
		if errors.Is(err, question.ErrReading) {
			why = err.Error()
		}
		return checks(held, nil, why+": leaks there, and ports that differ, are not known"), snapshot.Ended(ctx)
	}
	return out, snapshot.Ended(ctx)
}

// IPAMCheck is that of one Network, or of the cluster; false when there is none.
func Check(ctx context.Context, s snapshot.Sources, name string) (api.IPAMCheck, bool, error) {
	all, err := Checks(ctx, s)
	at := slices.IndexFunc(all, func(c api.IPAMCheck) bool { return c.Name == name })
	if err != nil || at < 0 {
		return api.IPAMCheck{}, false, err
	}
	return all[at], true, nil
}
