package topology

import (
	"context"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// Topologies are what Networks are made of.
func List(ctx context.Context, s snapshot.Sources) ([]api.Topology, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return nil, err
	}
	return list(held), snapshot.Ended(ctx)
}

// Topology is that of one Network; false when there is none.
func Get(ctx context.Context, s snapshot.Sources, name string) (api.Topology, bool, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return api.Topology{}, false, err
	}
	out, there := get(held, name)
	return out, there, snapshot.Ended(ctx)
}
