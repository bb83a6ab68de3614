// Command scale measures the controller with many Networks of the same addresses and many pods: whether one
// pod costs the same with none and with 50,000 around it, what a start costs when nothing has changed, and what
// all of it holds in memory.
//
//	Networks, pods -> kube-apiserver -> atoll-controller -> ovsdb-server -> monitor -> time of each pod's row
//	                                                            |
//	                                                            +-- its log: how many transactions, and in which batches
//
// The same rows are written in the same batches with nothing but the OVSDB library, in the same run, so that the
// ratio to what the database can do is one number. It prints a table of targets, and what else used the machine
// meanwhile. Everything it starts lives in temporary directories and ends with it.
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
	"time"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

type options struct {
	controller, dist string
	inspect          string
	json, plot       string
	profiles         string
	pods, networks   int
	nodes            int
	burst, known     int
	paced            time.Duration
	churn            int
	ovn, northd      bool
	soak             time.Duration
	check            string
}

func main() {
	var o options
	flag.StringVar(&o.controller, "controller", "bin/atoll-controller", "the controller to measure")
	flag.StringVar(&o.inspect, "inspect", "bin/atoll-inspect", "the program that answers questions, whose memory is measured")
	flag.StringVar(&o.dist, "dist", "dist", "directory of the manifests")
	flag.StringVar(&o.json, "json", "", "also write the results to this file, as JSON")
	flag.StringVar(&o.plot, "plot", "", "also draw pods per second and times against the ports present, to this SVG file")
	flag.StringVar(&o.profiles, "profiles", "", "also write the controller's profiles to this directory")
	flag.IntVar(&o.pods, "pods", 10000, "pods at the end (the full size: 50000)")
	flag.IntVar(&o.networks, "networks", 200, "Networks that the pods are spread over (the full size: 1000)")
	flag.IntVar(&o.nodes, "nodes", 500, "nodes that the pods name")
	flag.IntVar(&o.burst, "burst", 500, "pods of each burst")
	flag.IntVar(&o.known, "known", 3000, "pods that the API server holds already when the controller starts")
	flag.DurationVar(&o.paced, "paced", 30*time.Second, "how long 10 pods per second are made at each size")
	flag.IntVar(&o.churn, "churn", 1000, "pods that are deleted and followed by others at the full size")
	flag.BoolVar(&o.ovn, "ovn", true,
		"first make the Networks where ovn-northd and one node's ovn-controller run, and measure their time per added Network")
	flag.BoolVar(&o.northd, "northd", false, "run ovn-northd all the time, and do that then")
	flag.DurationVar(&o.soak, "soak", 0,
		"also let random things happen for so long while the controller is killed at random moments, and have atoll check judge")
	flag.StringVar(&o.check, "check", "bin/atoll", "the program that judges the soak")
	flag.Parse()

	harness.Main("scale", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if least := bursts*o.burst + o.pacedPods() + o.known; o.middle() < least || o.networks < 6 {
		return fmt.Errorf("--pods=%d, --networks=%d: half of the pods must be more than the first %d, and 6 Networks are needed", o.pods,
			o.networks, least)
	}
	if o.known < leastKnown {
		return fmt.Errorf("--known=%d: at least %d are needed for a rate over several transactions", o.known, leastKnown)
	}
	if each := (o.most() + o.nodes - 1) / o.nodes; each > mostPerNode {
		return fmt.Errorf("--pods=%d, --nodes=%d: %d pods on a node, whose block of faces is for %d", o.pods, o.nodes, each, mostPerNode)
	}
	results, err := measure(ctx, o)
	if err != nil {
		return err
	}
	err = harness.Tell(results, o.json)
	if o.plot != "" {
		err = errors.Join(err, os.WriteFile(o.plot, results.plot(), 0o644))
	}
	return err
}

func (o options) lab() lab.Options {
	return lab.Options{Controller: o.controller, Dist: o.dist, Northd: o.northd, WithoutQuotas: true}
}

// leastKnown fills three transactions of the controller.
const leastKnown = 3000

// mostPerNode is how many pods a node's block of faces is for: 512 addresses but the first and the last.
const mostPerNode = 510

// most is how many pods there are at once: at the full size more come at a steady pace and in bursts, and one after a
// restart. While old ones are followed by others, both may be there.
func (o options) most() int { return o.pods + o.pacedPods() + bursts*o.burst + o.churn + 1 }

// middle is the second of the three sizes at which is measured: 26,000 of 50,000.
func (o options) middle() int { return o.pods * 26 / 50 }

// perSecond is how many pods are made per second when they are made at a steady pace.
const perSecond = 10

func (o options) pacedPods() int { return int(o.paced.Seconds() * perSecond) }
