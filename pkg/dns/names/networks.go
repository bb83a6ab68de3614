package names

import (
	"context"
	"fmt"
	"sync"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// networks are those of the cluster that have portholes, by the name of theirs. A watch writes, everybody reads.
type networks struct {
	mu    sync.Mutex
	known map[porthole.ID]*model.Network
	// news is closed with the next change.
	news chan struct{}
}

func newNetworks() *networks {
	return &networks{known: map[porthole.ID]*model.Network{}, news: make(chan struct{})}
}

// set records a Network as it is now.
func (n *networks) set(network *model.Network) {
	n.change(func() { n.known[porthole.IDOf(network.UID)] = network })
}

// drop forgets a Network.
func (n *networks) drop(uid string) { n.change(func() { delete(n.known, porthole.IDOf(uid)) }) }

func (n *networks) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.news)
	n.news = make(chan struct{})
}

// of is the Network of a porthole; nil when there is none.
func (n *networks) of(id porthole.ID) *model.Network {
	network, _ := n.look(id)
	return network
}

func (n *networks) look(id porthole.ID) (*model.Network, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[id], n.news
}

// await waits until the Network of a porthole is known: the agent may have heard of it first.
func (n *networks) await(ctx context.Context, id porthole.ID) error {
	for {
		network, news := n.look(id)
		if network != nil {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("wait for the Network of porthole %s: %w", id, context.Cause(ctx))
		}
	}
}
