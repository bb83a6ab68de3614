// Command conformance runs Kubernetes' own end-to-end tests of the network and of probes against the sandbox: the very
// binary that upstream makes, of the release that the sandbox runs, with images that are made here.
//
//	conformance                       every spec of the list, with pods in the default Network
//	conformance --network=vpc         the same specs, with the pods of the tests in a vpc Network
//	conformance --network=joined      the same, spread over three vpc Networks that mode Routed joins
//	conformance --network=flat        the same, spread over the default Network and a flat one beside it
//	conformance --network=default,vpc both, one after the other
//	conformance --list=short          a few specs that tell much in little time
//	conformance --list=netpol         those of NetworkPolicy
//	conformance --list=clusternetpol  the tests of ClusterNetworkPolicy, which are network-policy-api's
//	conformance --focus=REGEXP        only the specs of the list whose name matches
//
// In flow the list (specs.go), the exceptions with their reasons (exceptions-*.yaml), and a sandbox, which is started if
// none runs. Out flow a line per spec while they run, a summary, and in bin/conformance the reports. What must stay true:
// the tests are not changed, an exception names its reason, and neither a spec that fails without one nor an exception
// whose spec passes goes unnoticed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/atoll-net/atoll/test/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{out: os.Stdout}
	networks := flag.String("network", string(defaultNetwork),
		"where the pods of the tests live: default, vpc, joined, flat, or several with commas between")
	flag.StringVar(&o.list, "list", "full", "which specs: full, short, netpol or clusternetpol")
	focus := flag.String("focus", "", "only specs whose name matches this regular expression")
	flag.IntVar(&o.procs, "procs", 6, "specs that run at a time")
	flag.StringVar(&o.reports, "reports", "bin/conformance", "directory for the reports, below this one")
	flag.BoolVar(&o.keep, "keep", false, "leave the sandbox running; one that ran before is left anyway")
	flag.StringVar(&o.sandbox.Name, "name", sandbox.DefaultName, "the sandbox's name")
	flag.StringVar(&o.sandbox.State, "state", sandbox.DefaultState, "the sandbox's state directory")
	flag.StringVar(&o.sandbox.Bin, "bin", "", "directory of Atoll's programs (default bin of the source tree)")
	flag.Parse()
	err := o.parse(*networks, *focus)
	if err == nil {
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func (o *options) parse(networks, focus string) (err error) {
	if _, ok := lists()[o.list]; !ok && o.list != clusterPolicyList {
		return fmt.Errorf("find list %q: there are full, short, netpol and clusternetpol", o.list)
	}
	for name := range strings.SplitSeq(networks, ",") {
		n, err := networkNamed(name)
		if err != nil {
			return err
		}
		o.networks = append(o.networks, n)
	}
	if o.focus, err = regexp.Compile(focus); err != nil {
		return fmt.Errorf("read --focus: %w", err)
	}
	if o.sandbox.Source, err = filepath.Abs("."); err != nil {
		return fmt.Errorf("find source tree: %w", err)
	}
	// The tests run in a place of the sandbox, where a relative path means something else.
	o.reports = filepath.Join(o.sandbox.Source, o.reports)
	return nil
}

var errFailed = errors.New("not all is as expected")

// run brings up what is needed, runs the tests, and prints the summary of all.
func (o options) run(ctx context.Context) (err error) {
	c, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := c.stop(); err == nil {
			err = stopErr
		}
	}()
	var verdicts []verdict
	for _, n := range o.networks {
		v, err := c.test(ctx, n)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, v)
	}
	if !summarise(o.out, verdicts) {
		return errFailed
	}
	return nil
}
