// Command portholes measures what it costs that Networks of the same addresses meet their nodes: it makes a sandbox of
// three nodes, with the real kubelet, containerd and OVN, puts hundreds of pods with network probes into a hundred
// Networks, and takes everything away again.
//
//	Networks, pods -> sandbox -> agents' metrics, /proc, OVN's databases -> table, JSON
//
// First of all, in a place of its own without nodes, OVN's logical flows are counted with and without faces, and what a
// DNS server takes is measured in this very process. A figure of a shared machine means little alone: each part says how
// many processors were used by others meanwhile.
//
// It needs root and bin/ (make build). The environment names the programs that are not ours, as for the tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

type options struct {
	sandbox  harness.Sandbox
	dist     string
	json     string
	networks int
	pods     int
	sample   int
	alone    int
	turns    int
	parts    []string
}

// The parts of a run, in their order.
const (
	partFlows  = "flows"
	partNames  = "names"
	partMemory = "memory"
	// partRemoval cannot be chosen: each run on nodes ends with it.
	partRemoval = "removal"
	partAlone   = "alone"
	partHost    = "host"
	partDefault = "default"
	partTurns   = "turns"
	partBurst   = "burst"
)

func allParts() []string {
	return []string{partFlows, partNames, partMemory, partAlone, partHost, partDefault, partTurns, partBurst}
}

// runs reports whether a part is asked for.
func (o options) runs(part string) bool { return slices.Contains(o.parts, part) }

func main() {
	var o options
	o.sandbox.Flags()
	flag.StringVar(&o.dist, "dist", "dist", "directory of the manifests")
	flag.StringVar(&o.json, "json", "", "also write the results to this file, as JSON")
	flag.IntVar(&o.networks, "networks", 100, "Networks")
	flag.IntVar(&o.pods, "pods", 500, "pods, as many in each Network; a pod takes about 30 MB of the machine's memory")
	flag.IntVar(&o.sample, "sample", 50, "Networks by which memory is measured")
	flag.IntVar(&o.alone, "alone", 8, "Networks whose portholes are made one after the other")
	flag.IntVar(&o.turns, "turns", 150, "pods that are made 3 at a time, of the same ones")
	list := flag.String("parts", "flows,names,memory,alone,turns,burst", "parts to run, of "+strings.Join(allParts(), ",")+
		"; host and default make as many pods as burst with their node's network and in the default Network, to compare")
	flag.Parse()
	o.parts = strings.Split(*list, ",")

	harness.Main("portholes", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	if max(o.sample, o.alone) > o.networks || o.pods%o.networks != 0 {
		return errors.New("the sample is at most the Networks, and each has as many pods")
	}
	if o.turns < 1 {
		return errors.New("pods in turn are at least one")
	}
	o.turns = min(o.turns, o.pods)
	for _, part := range o.parts {
		if !slices.Contains(allParts(), part) {
			return fmt.Errorf("there is no part %q", part)
		}
	}
	out := results{Networks: o.networks, Pods: o.pods, Processors: runtime.NumCPU()}
	progress := lab.NewProgress(os.Stderr)
	if o.runs(partFlows) {
		if out.Flows, err = countFlows(ctx, o); err != nil {
			return fmt.Errorf("count logical flows: %w", err)
		}
		out.Measured = append(out.Measured, partFlows)
		progress.Done("logical flows, with and without faces")
	}
	if o.runs(partNames) {
		if out.Names, err = namesAlone(ctx); err != nil {
			return fmt.Errorf("measure DNS servers: %w", err)
		}
		out.Measured = append(out.Measured, partNames)
		progress.Done("DNS servers alone")
	}

	return o.sandbox.Run(ctx, func(sandbox *harness.Cluster) error {
		c, err := newCluster(ctx, sandbox, progress)
		if err != nil {
			return err
		}
		progress.Done("sandbox")
		// What was measured before a failure is of use, too.
		err = c.measure(ctx, o, &out)
		return errors.Join(err, harness.Tell(out, o.json))
	})
}

// measure runs all parts that need nodes.
func (c *cluster) measure(ctx context.Context, o options, out *results) error {
	if err := c.makeNetworks(ctx, o.networks); err != nil {
		return fmt.Errorf("make Networks: %w", err)
	}
	c.progress.Done("Networks")
	empty, err := c.remains(ctx)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name, done string
		run        func() error
	}{
		{partMemory, "memory of portholes", func() (err error) { out.Memory, err = c.weigh(ctx, o.sample); return err }},
		{partAlone, "one pod at a time", func() error { return c.oneByOne(ctx, o.alone, out) }},
		{partHost, "pods with their node's network", func() (err error) { out.OnHost, err = c.compare(ctx, o, onHost); return err }},
		{partDefault, "pods of the default Network", func() (err error) { out.InDefault, err = c.compare(ctx, o, inDefault); return err }},
		{partTurns, "3 pods at a time, and gone again", func() error { return c.turns(ctx, o, empty, out) }},
		{partBurst, "all pods at once", func() error { return c.burst(ctx, o, out) }},
	} {
		if !o.runs(part.name) {
			continue
		}
		err := part.run()
		if _, late := errors.AsType[*lateError](err); err == nil || late {
			out.Measured = append(out.Measured, part.name)
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", part.done, err)
		}
		c.progress.Done(part.done)
	}
	if out.Removal, err = c.removeAll(ctx, empty, atOnce); err != nil {
		return fmt.Errorf("measure removal: %w", err)
	}
	out.Measured = append(out.Measured, partRemoval)
	c.progress.Done("removal")
	return nil
}
