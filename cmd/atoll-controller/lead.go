package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/kube"
)

// errSteppedDown ends a process that has lost its leadership: its successor starts from a clean slate, and
// so does it.
var errSteppedDown = errors.New("leadership was lost; the process ends so that it starts afresh")

// lead runs the engine while this process is the leader.
func lead(ctx context.Context, o options, cluster *rest.Config, cfg controller.Config) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this controller: %w", err)
	}
	if !o.leaderElect {
		cfg.Epoch = host + "_" + uuid.NewString()
		return controller.New(cfg).Run(ctx)
	}
	var result error
	err = kube.Lead(ctx, cluster, kube.LeadOptions{
		Namespace: o.leaseNamespace, Name: "atoll-controller", Identity: host, Logger: cfg.Log,
	}, func(ctx context.Context, epoch string) {
		cfg.Log.Info("leading", "epoch", epoch)
		cfg.Epoch = epoch
		result = controller.New(cfg).Run(ctx)
	})
	if err = errors.Join(result, err); err != nil {
		return err
	}
	return errSteppedDown
}
