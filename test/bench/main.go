// Command bench measures how fast the controller turns pods into rows of the northbound database, on a real
// API server with its etcd and a real ovsdb-server, with the controller as a process of its own. There is no
// northd and no kubelet, as in the measurements of other projects that stand beside the results.
//
//	pods -> kube-apiserver -> atoll-controller -> ovsdb-server -> monitor -> time of each pod's row
//
// It measures what the API server and the database can do alone in the same run: a figure of a shared machine
// means little without them. Everything it starts lives in one temporary directory and ends with it.
//
// The environment names the programs that are not ours, as for the tests: ATOLL_KUBE_BIN, ATOLL_ETCD and
// ATOLL_OVN_PREFIX.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

type options struct {
	controller string
	dist       string
	json       string
	networks   int
	burst      int
	agent      bool
}

func main() {
	var o options
	flag.StringVar(&o.controller, "controller", "bin/atoll-controller", "the controller to measure")
	flag.StringVar(&o.dist, "dist", "dist", "directory of the manifests")
	flag.StringVar(&o.json, "json", "", "also write the results to this file, as JSON")
	flag.IntVar(&o.networks, "networks", 10, "Networks that the pods are spread over")
	flag.IntVar(&o.burst, "burst", 5000, "pods of the large burst")
	flag.BoolVar(&o.agent, "agent", true, "also run the agent's benchmark (go test, as root)")
	flag.Parse()

	// client-go tells of each request that waited for its answer; here that is the point.
	klog.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	results, err := measure(ctx, o)
	if err != nil {
		return err
	}
	if o.agent {
		// After the rest has stopped, so that the agent has the machine for itself.
		if results.Agent, err = agentADD(ctx); err != nil {
			err = fmt.Errorf("measure agent: %w", err)
		}
	}
	if printErr := results.print(os.Stdout); printErr != nil {
		return errors.Join(err, printErr)
	}
	if o.json != "" {
		err = errors.Join(err, results.write(o.json))
	}
	return err
}

// measure starts everything, measures and ends everything.
func measure(ctx context.Context, o options) (out results, err error) {
	progress := newProgress(os.Stderr)
	l, err := startLab(ctx, o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	progress.done("start API server and database")

	if out.APIAlone, err = l.apiAlone(ctx); err != nil {
		return out, fmt.Errorf("measure API server alone: %w", err)
	}
	progress.done("API server alone")
	if err = l.databaseAlone(ctx, &out); err != nil {
		return out, fmt.Errorf("measure database alone: %w", err)
	}
	progress.done("database alone")

	if err = l.startController(ctx); err != nil {
		return out, err
	}
	if err = l.createNetworks(ctx, o.networks); err != nil {
		return out, fmt.Errorf("make Networks: %w", err)
	}
	progress.done("start controller and Networks")
	if err = l.pods(ctx, o, &out, progress); err != nil {
		return out, err
	}
	if out.ControllerMB, err = l.controller.residentMB(); err != nil {
		return out, err
	}
	if out.RestartSeconds, err = l.restart(ctx); err != nil {
		return out, fmt.Errorf("measure restart: %w", err)
	}
	progress.done("restart of the controller")
	return out, nil
}

// pods measures pods, and what they cost.
func (l *lab) pods(ctx context.Context, o options, out *results, progress *progress) error {
	before, err := l.controllerWrites(ctx)
	if err != nil {
		return err
	}
	busyBefore, err := l.controller.cpu()
	if err != nil {
		return err
	}
	var start, end usage
	for _, part := range []struct {
		name string
		to   *series
		load load
	}{
		{"one pod at a time", &out.Single, load{pods: 20, creators: 1, wait: true}},
		{"10 pods per second", &out.Paced, load{pods: 300, perSecond: 10}},
		{"burst of 500", &out.Burst500, load{pods: 500, creators: 32}},
		{fmt.Sprintf("burst of %d", o.burst), &out.Burst, load{pods: o.burst, creators: 32}},
	} {
		if start, err = readUsage(); err != nil {
			return err
		}
		if *part.to, err = l.apply(ctx, part.load); err != nil {
			return fmt.Errorf("measure %s: %w", part.name, err)
		}
		if end, err = readUsage(); err != nil {
			return err
		}
		progress.done(part.name)
	}
	out.Processors = runtime.NumCPU()
	out.Programs, out.Machines = start.foreign(end)
	out.AllCPUPerPod = (end.ours - start.ours).Seconds() * 1000 / float64(out.Burst.Pods)
	if err = l.settle(ctx); err != nil {
		return fmt.Errorf("wait for annotations: %w", err)
	}
	after, err := l.controllerWrites(ctx)
	if err != nil {
		return err
	}
	busyAfter, err := l.controller.cpu()
	if err != nil {
		return err
	}
	pods := float64(out.pods())
	out.CPUPerPod = (busyAfter - busyBefore).Seconds() * 1000 / pods
	out.PatchesPerPod = (after.pods - before.pods) / pods
	out.StatusWrites = int(after.networks - before.networks)
	return nil
}
