package snapshot

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Sources are where answers come from: objects that somebody holds, the API server and OVN's databases.
type Sources struct {
	// Source says who answers.
	Source string
	// Held gives the objects as they are now, or says why they are not known.
	Held func() (Held, error)
	// Client asks the API server for the rest.
	Client kubernetes.Interface
	// Northbound and Southbound are nil where they cannot be asked.
	Northbound, Southbound *ovsdb.Asker
	// Mirror has the northbound database's rows for explanations, and Settings gives the cluster's settings, or says why they are
	// not known. Nil where nothing is explained.
	Mirror   *Mirror
	Settings func() (config.Settings, error)
}

// HeldFor are the objects for an answer that ends with ctx.
func (s Sources) HeldFor(ctx context.Context) (Held, error) {
	held, err := s.Held()
	held.done = ctx.Done()
	return held, err
}

// Ended is why an answer is none.
func Ended(ctx context.Context) error { return context.Cause(ctx) }
