package portholes

import (
	"context"
	"time"

	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

const (
	// lossSettles is how long after a loss it is looked what has gone: most come several at a time, and are somebody's own doing.
	lossSettles = 20 * time.Millisecond
	// lossPause is between two repairs, so that whoever takes something away again and again does not keep the node busy. After each
	// that fails it is twice as long, up to longestPause: one that fails halfway looks at all portholes, and what it takes and makes
	// is a loss again. A sweep tries it, too.
	lossPause, longestPause = time.Second, time.Minute
)

// SweptLoss is what metrics call the repair of what the kernel took away with something else, or others on the node removed.
const SweptLoss = "loss"

// FollowLosses mends what goes on the node that portholes need, as soon as it goes, whenever it is known whom portholes are for:
// addresses, routes and links, by a network manager or by hand, with what the kernel takes along, and rules, when a firewall is
// loaded anew. It ends with ctx.
func (p *Portholes) FollowLosses(ctx context.Context, known func() bool) error {
	lost := wake.NewSignal()
	followed := make(chan struct{})
	go func() { // ends with ctx
		defer close(followed)
		for ctx.Err() == nil {
			if err := porthole.FollowLosses(ctx, lost.Send); err != nil && ctx.Err() == nil {
				p.Log.Warn("what the kernel loses is not followed; it is tried again", "error", err)
			}
			pause(ctx, lossPause)
		}
	}()
	mendLosses(ctx, lost, known, p.mend)
	<-followed
	return nil
}

// mendLosses mends whenever something was lost, whenever it is known whom portholes are for, until ctx ends.
func mendLosses(ctx context.Context, lost <-chan struct{}, known func() bool, mend func(context.Context) (had bool, err error)) {
	rest := lossPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
		}
		pause(ctx, lossSettles)
		if !known() {
			continue
		}
		had, err := mend(ctx)
		switch {
		case err != nil:
			pause(ctx, rest)
			rest = min(2*rest, longestPause)
		case had:
			rest = lossPause
			pause(ctx, rest)
		}
	}
}

// mend makes what has gone anew, and reports whether anything had.
func (p *Portholes) mend(ctx context.Context) (had bool, err error) {
	sound, err := p.Keeper.Sound()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err == nil && sound {
		return false, nil
	}
	err = p.Refresh(ctx, Doubting)
	p.Swept(SweptLoss, err)
	if err != nil {
		p.Log.Warn("what the node lost is not mended", "error", err)
	} else {
		p.Log.Info("swept", "what", "what the node had lost")
	}
	// It looks at what is not the portholes', too.
	p.Soon()
	return true, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
