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
	"os"
	"runtime"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
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
	flag.IntVar(&o.burst, "burst", 5000, "pods of the large burst, 9,000 at most: its nodes have room for no more")
	flag.BoolVar(&o.agent, "agent", true, "also run the agent's benchmark (go test, as root)")
	flag.Parse()
	if o.burst > 9000 {
		fmt.Fprintln(os.Stderr, "bench: -burst is 9,000 at most: its nodes have no faces for more")
		os.Exit(2)
	}

	harness.Main("bench", func(ctx context.Context) error { return run(ctx, o) })
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
	return errors.Join(err, harness.Tell(results, o.json))
}

// measure starts everything, measures and ends everything.
func measure(ctx context.Context, o options) (out results, err error) {
	progress := lab.NewProgress(os.Stderr)
	l, err := lab.Start(ctx, lab.Options{Controller: o.controller, Dist: o.dist})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	b := &bench{Lab: l}
	progress.Done("start API server and database")

	if out.APIAlone, err = b.apiAlone(ctx); err != nil {
		return out, fmt.Errorf("measure API server alone: %w", err)
	}
	if out.Limit500, err = b.limit(ctx, burst500); err != nil {
		return out, fmt.Errorf("measure what the API server allows: %w", err)
	}
	if out.Limit, err = b.limit(ctx, o.burst); err != nil {
		return out, fmt.Errorf("measure what the API server allows: %w", err)
	}
	progress.Done("API server alone")
	if err = b.databaseAlone(ctx, &out); err != nil {
		return out, fmt.Errorf("measure database alone: %w", err)
	}
	progress.Done("database alone")

	if err = b.StartController(ctx, "--metrics-address="); err != nil {
		return out, err
	}
	if err = b.createNetworks(ctx, o.networks); err != nil {
		return out, fmt.Errorf("make Networks: %w", err)
	}
	progress.Done("start controller and Networks")
	if err = b.pods(ctx, o, &out, progress); err != nil {
		return out, err
	}
	if out.ControllerMB, err = b.Controller.ResidentMB(); err != nil {
		return out, err
	}
	if out.RestartSeconds, err = b.restart(ctx); err != nil {
		return out, fmt.Errorf("measure restart: %w", err)
	}
	progress.Done("restart of the controller")
	return out, nil
}

// pods measures pods, and what they cost.
func (b *bench) pods(ctx context.Context, o options, out *results, progress *lab.Progress) error {
	before, err := b.controllerWrites(ctx)
	if err != nil {
		return err
	}
	busyBefore, err := b.Controller.CPU()
	if err != nil {
		return err
	}
	var start, end lab.Usage
	for _, part := range []struct {
		name string
		to   *series
		load lab.Load
	}{
		{"one pod at a time", &out.Single, lab.Load{Count: 20, Workers: 1}},
		{"10 pods per second", &out.Paced, lab.Load{Count: 300, PerSecond: 10}},
		{"burst of 500", &out.Burst500, lab.Load{Count: burst500, Workers: creators}},
		{fmt.Sprintf("burst of %d", o.burst), &out.Burst, lab.Load{Count: o.burst, Workers: creators}},
	} {
		if start, err = lab.ReadUsage(); err != nil {
			return err
		}
		if *part.to, err = b.apply(ctx, part.load); err != nil {
			return fmt.Errorf("measure %s: %w", part.name, err)
		}
		if end, err = lab.ReadUsage(); err != nil {
			return err
		}
		progress.Done(part.name)
	}
	out.Processors = runtime.NumCPU()
	out.Programs, out.Machines = start.Foreign(end)
	out.AllCPUPerPod = (end.Ours - start.Ours).Seconds() * 1000 / float64(out.Burst.Pods)
	if err = b.settle(ctx); err != nil {
		return fmt.Errorf("wait for annotations: %w", err)
	}
	after, err := b.controllerWrites(ctx)
	if err != nil {
		return err
	}
	busyAfter, err := b.Controller.CPU()
	if err != nil {
		return err
	}
	pods := float64(out.pods())
	out.CPUPerPod = (busyAfter - busyBefore).Seconds() * 1000 / pods
	out.PatchesPerPod = (after.pods - before.pods) / pods
	out.WatchesEnded = int(after.watchesEnded - before.watchesEnded)
	out.StatusWrites = int(after.networks - before.networks)
	return nil
}
