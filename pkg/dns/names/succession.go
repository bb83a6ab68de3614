package names

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// clusterSettings are what counts here of the cluster's.
type clusterSettings struct {
	dns config.DNS
	// compatible decide which Networks know names of others.
	compatible compatible.Settings
}

func settingsOf(s config.Settings) clusterSettings {
	s.DNS.Service = model.ServiceKey{} // of no interest here
	return clusterSettings{dns: s.DNS, compatible: s.Compatible()}
}

// Run answers with the settings in force until ctx ends. When they change, a successor begins beside the server that has answered
// so far, as when the program is replaced by another: that one ends when the successor is ready, and no question is lost.
func Run(ctx context.Context, own Config, api follow.Clients, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news, followed := make(chan clusterSettings, 1), make(chan struct{})
	go func() {
		defer close(followed)
		failed := func(err error) { log.Warn("AtollConfig not read; it is tried again", "error", err) }
		config.Follow(ctx, api.Networks, failed, func(s config.Settings) {
			select { // One that nobody began with is of no interest any more.
			case <-news:
			default:
			}
			news <- settingsOf(s)
		})
	}()
	defer func() { <-followed }()
	defer stop()
	var running *answering
	defer func() { running.end() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-running.over():
			return running.err
		case now := <-news:
			if running != nil && reflect.DeepEqual(now, running.settings) {
				continue
			}
			log.Info("settings in force", "addresses", now.dns.Addresses, "domain", now.dns.Domain, "faces", now.compatible.Faces)
			next := begin(ctx, own, now, api, log)
			select {
			case <-next.ready:
			case <-next.done: // It failed, or ctx has ended.
			}
			running.end()
			running = next
		}
	}
}

// answering is a server at work; nil is none.
type answering struct {
	settings    clusterSettings
	stop        context.CancelFunc
	ready, done chan struct{}
	// err is why it ended, once done is closed.
	err error
}

func begin(ctx context.Context, own Config, now clusterSettings, api follow.Clients, log *slog.Logger) *answering {
	ctx, stop := context.WithCancel(ctx)
	a := &answering{settings: now, stop: stop, ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = serve(ctx, own, now, api, log, func() { close(a.ready) })
	}()
	return a
}

func (a *answering) over() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.done
}

// end returns when all that was asked has been answered.
func (a *answering) end() {
	if a != nil {
		a.stop()
		<-a.done
	}
}
