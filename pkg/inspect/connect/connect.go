package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

const (
	// UserAgent is our name towards the API server.
	UserAgent = "atoll"
	// bridge is OVN's integration bridge.
	bridge = "br-int"
	// switchTime is how long a node's Open vSwitch is dialled.
	switchTime = 10 * time.Second
)

// UserClient is a client of the API server for what changes something, as kubectl would reach it.
func UserClient(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := kube.UserConfig(kubeconfig, UserAgent)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	return client, nil
}

// UserNamespace is the namespace that kubectl takes when none is named: that of the kubeconfig's context.
func UserNamespace(kubeconfig string) (string, error) { return kube.UserNamespace(kubeconfig) }

// OpenCluster begins to read the cluster's objects; stop ends that.
func OpenCluster(ctx context.Context, kubeconfig string, log *slog.Logger) (feed *kube.Feed, stop func(), err error) {
	cfg, err := kube.UserConfig(kubeconfig, UserAgent)
	if err != nil {
		return nil, nil, err
	}
	if feed, err = kube.NewFeed(cfg, kube.Options{Logger: log}); err != nil {
		return nil, nil, err
	}
	if err := feed.Probe(ctx); err != nil {
		return nil, nil, fmt.Errorf("ask the API server at %s: %w", cfg.Host, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	return feed, func() { cancel(); running.Wait() }, nil
}

// ClusterObjects reads all that the API server has.
func ClusterObjects(ctx context.Context, kubeconfig string, heard *LastWarning) (model.Changes, error) {
	feed, stop, err := OpenCluster(ctx, kubeconfig, slog.New(heard))
	if err != nil {
		return model.Changes{}, err
	}
	defer stop()
	if err := AwaitObjects(ctx, feed); err != nil {
		return model.Changes{}, err
	}
	objects := model.NewChanges()
	objects.Merge(feed.Take())
	objects.Settle()
	return objects, nil
}

// ReadSettings gives the settings that the controller decides by.
func ReadSettings(ctx context.Context, kubeconfig string) (decide.Defaults, error) {
	cfg, err := kube.UserConfig(kubeconfig, UserAgent)
	if err != nil {
		return decide.Defaults{}, err
	}
	settings, err := config.Read(ctx, cfg)
	return defaultsof.Of(settings), err
}

// AwaitObjects waits until the feed has all that the cluster held when it began.
func AwaitObjects(ctx context.Context, feed *kube.Feed) error {
	for !feed.Synced() {
		select {
		case <-feed.Ready():
		case <-ctx.Done():
			return fmt.Errorf("list the cluster's objects: %w", context.Cause(ctx))
		}
	}
	return nil
}

// ViewOf gives what the northbound database holds at the moment of each call, as long as the session lives.
func ViewOf(session *ovsdb.Session) func() (snapshot.Northbound, error) {
	return func() (snapshot.Northbound, error) {
		select {
		case <-session.Done():
			return nil, fmt.Errorf("read the northbound database: %w", ovsdb.ErrClosed)
		default:
			// From here on it is as it is now.
			session.Take()
			return session, nil
		}
	}
}

// OpenSwitch dials the Open vSwitch database at an address.
func OpenSwitch(ctx context.Context, address string, log *slog.Logger) (*vswitch.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	return vswitch.Dial(ctx, address, bridge, log)
}

// LastWarning is a log that remembers only the last warning or error: who waits in vain wants to know why.
type LastWarning struct {
	mu   sync.Mutex
	text string
}

// Enabled implements slog.Handler.
func (*LastWarning) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (l *LastWarning) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" || a.Key == "error" {
			text += ": " + a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text
	return nil
}

// WithAttrs implements slog.Handler.
func (l *LastWarning) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *LastWarning) WithGroup(string) slog.Handler { return l }

// Explain adds the last warning to the error of somebody who waited in vain.
func (l *LastWarning) Explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != "" && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (the last warning was: %s)", err, l.text)
	}
	return err
}

// Servers says where a trace reads what it needs.
type Servers struct {
	// Kubeconfig says how to reach the API server; empty: as kubectl does.
	Kubeconfig string
	// Northbound are the servers of the northbound database; without any, a trace reaches it by way of the API server. Southbound
	// are those of the southbound one, which an explanation can do without.
	Northbound, Southbound []string
}
