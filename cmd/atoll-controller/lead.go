package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/kube"
)

// errSteppedDown ends a process that has lost its leadership: its successor starts from a clean slate, and
// so does it.
var errSteppedDown = errors.New("leadership was lost; the process ends so that it starts afresh")

// running is the engine of this process, once it leads.
type running struct {
	atomic.Pointer[controller.Engine]
}

// healthy reports whether the engine works; a process that waits to lead has none, and is well.
func (r *running) healthy() error {
	if e := r.Load(); e != nil {
		return e.Healthy()
	}
	return nil
}

func (r *running) run(ctx context.Context, cfg controller.Config) error {
	e := controller.New(cfg)
	r.Store(e)
	return e.Run(ctx)
}

// lead runs the engine while this process is the leader.
func lead(ctx context.Context, o options, cluster *rest.Config, cfg controller.Config, engine *running) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this controller: %w", err)
	}
	if !o.leaderElect {
		cfg.Epoch = host + "_" + uuid.NewString()
		return engine.run(ctx, cfg)
	}
	var result error
	err = kube.Lead(ctx, cluster, kube.LeadOptions{
		Namespace: o.leaseNamespace, Name: "atoll-controller", Identity: host, Logger: cfg.Log,
	}, func(ctx context.Context, epoch string) {
		cfg.Log.Info("leading", "epoch", epoch)
		cfg.Epoch = epoch
		result = engine.run(ctx, cfg)
	})
	if err = errors.Join(result, err); err != nil {
		return err
	}
	return errSteppedDown
}
