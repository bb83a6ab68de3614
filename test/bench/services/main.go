// Command services measures Services. In a place without nodes, with a real API server and etcd, a real ovsdb-server and the
// controller as a process of its own, it makes 1,000 Services of 10 endpoints in 100 Networks of the same addresses and
// changes endpoints:
//
//	EndpointSlice -> kube-apiserver -> atoll-controller -> relay that counts -> ovsdb-server -> monitor -> time of each change
//
// Then, in a sandbox of three nodes with the real kubelet, OVN and packets, it asks through a virtual address and directly,
// and replaces all pods of a Deployment while clients ask.
//
// It needs root and bin/ (make build). The environment names the programs that are not ours, as for the tests. A figure
// of a shared machine means little alone: each part says how many processors were used by others meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

type options struct {
	sandbox    harness.Sandbox
	controller string
	dist       string
	json       string
	networks   int
	services   int
	endpoints  int
	paced      int
	rows       bool
	packets    bool
	ask        time.Duration
	rollouts   int
}

func main() {
	var o options
	o.sandbox.Flags()
	flag.StringVar(&o.dist, "dist", "dist", "directory of the manifests")
	flag.StringVar(&o.json, "json", "", "also write the results to this file, as JSON")
	flag.IntVar(&o.networks, "networks", 100, "Networks")
	flag.IntVar(&o.services, "services", 1000, "Services, as many in each Network")
	flag.IntVar(&o.endpoints, "endpoints", 10, "endpoints of each Service, each a pod of its own")
	flag.IntVar(&o.paced, "paced", 300, "changes at a steady pace of 10 per second")
	flag.BoolVar(&o.rows, "rows", true, "measure endpoints to rows, without nodes")
	flag.BoolVar(&o.packets, "packets", true, "measure with packets, in a sandbox")
	flag.DurationVar(&o.ask, "ask", time.Second, "how long a way of asking is measured at a time")
	flag.IntVar(&o.rollouts, "rollouts", 3, "how often all pods are replaced while clients ask")
	flag.Parse()

	harness.Main("services", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) (err error) {
	if o.services%o.networks != 0 || o.services/o.networks > 200 {
		return errors.New("each Network has as many Services, at most 200")
	}
	o.controller = o.sandbox.Bin + "/atoll-controller"
	out := results{Networks: o.networks, Services: o.services, Endpoints: o.endpoints, Processors: runtime.NumCPU()}
	progress := lab.NewProgress(os.Stderr)
	if o.rows {
		if out.Rows, err = measureRows(ctx, o, progress); err != nil {
			return fmt.Errorf("measure endpoints to rows: %w", err)
		}
	}
	if o.packets {
		if out.Packets, err = measurePackets(ctx, o, progress); err != nil {
			err = fmt.Errorf("measure with packets: %w", err)
		}
	}
	// What was measured before a failure is of use, too.
	return errors.Join(err, harness.Tell(out, o.json))
}
