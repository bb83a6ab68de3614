//go:build integration

package porthole

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRules writes whole tables, and compares what nft shows of them with the files in testdata: what a person judges them by.
func TestRules(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"services":  func(*Spec) {},
		"closed":    func(s *Spec) { s.Egress, s.Infra, s.DNS = model.EgressNone, model.InfraNone, nil },
		"direct":    func(s *Spec) { s.Infra = model.InfraDirect },
		"consumer":  func(s *Spec) { s.Consumer = true },
		"addressed": func(s *Spec) { s.Consumer, s.Addressed = true, parsed("10.3.0.0/24", "10.3.0.0/25", "fd00:3::/64") },
		"provider":  func(s *Spec) { s.Provider, s.Egress = true, model.EgressNone },
		"both":      func(s *Spec) { s.Consumer, s.Provider = true, true },
		"ipv4": func(s *Spec) {
			six := func(p netip.Prefix) bool { return p.Addr().Is6() }
			s.Subnets, s.ServiceRanges = slices.DeleteFunc(s.Subnets, six), nil
			s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.Own.Is6() })
			s.DNS, s.API = s.DNS[:1], s.API[:1]
		},
		// Ranges that touch each other, and both ends of all addresses.
		"adjacent": func(s *Spec) {
			s.Subnets = parsed("0.0.0.0/9", "0.128.0.0/9", "240.0.0.0/4", "::/16", "1::/16", "ff00::/8")
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec("u1")
			change(&spec)
			golden(t, portholeRules(spec.normal(), something), name)
		})
	}
	t.Run("node", func(t *testing.T) { golden(t, hostRules(testHost().normal()), "node") })
}

func golden(t *testing.T, rules *transaction, name string) {
	t.Helper()
	must(t, rules.commit())
	t.Cleanup(func() { run(t, "nft", "delete", "table", "inet", tableName) })
	got, file := run(t, "nft", "list", "table", "inet", tableName), filepath.Join("testdata", name+".nft")
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", file, diff)
	}
}

// TestListingIsWhatWasWritten: nft reads what it shows of our tables as the same tables. What it could not put into words would
// not be ours.
func TestListingIsWhatWasWritten(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.nft"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no golden file is there")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		run(t, "nft", "-f", file)
		if diff := cmp.Diff(string(text), run(t, "nft", "list", "table", "inet", tableName)); diff != "" {
			t.Errorf("%s: -written +read again:\n%s", file, diff)
		}
		run(t, "nft", "delete", "table", "inet", tableName)
	}
}

// TestManyElements: a cluster of 5,000 nodes has more addresses than one message, or the usual buffer of a socket, can hold.
func TestManyElements(t *testing.T) {
	const nodes = 5000
	spec := testSpec("u1")
	spec.Cluster.Infra = nil
	for n := range nodes {
		for _, text := range []string{fmt.Sprintf("198.18.%d.%d/32", n/128, n%128*2), fmt.Sprintf("2001:db8::%x/128", 2*n)} {
			spec.Cluster.Infra = append(spec.Cluster.Infra, netip.MustParsePrefix(text))
		}
	}
	t.Cleanup(func() { run(t, "nft", "delete", "table", "inet", tableName) })
	must(t, portholeRules(spec.normal(), something).commit())
	for _, f := range both {
		listed := run(t, "nft", "list", "set", "inet", tableName, "infra"+f.version)
		_, listed, _ = strings.Cut(listed, "elements = {")
		if got := strings.Count(listed, ",") + 1; got != nodes {
			t.Errorf("infra%s has %d elements, not %d", f.version, got, nodes)
		}
	}
}

// TestManyCompatible: a cluster of 1,000 Networks, each of which reaches ten others.
func TestManyCompatible(t *testing.T) {
	const networks, each = 1000, 10
	host := testHost()
	host.Compatible = nil
	for n := range networks {
		for other := range each {
			host.Compatible = append(host.Compatible, Compatible{fmt.Sprint("uid", n), fmt.Sprint("uid", (n+other+1)%networks)})
		}
	}
	t.Cleanup(func() { run(t, "nft", "delete", "table", "inet", tableName) })
	began := time.Now()
	must(t, hostRules(host.normal()).commit())
	t.Logf("written in %s", time.Since(began))
	for name, want := range map[string]int{setConsumers: networks, setProviders: networks, setCompatible: networks * each} {
		listed := run(t, "nft", "list", "set", "inet", tableName, name)
		if got := strings.Count(listed, hostPrefix); name == setCompatible && got != 2*want || name != setCompatible && got != want {
			t.Errorf("%s has %d names", name, got)
		}
	}
}

// TestRefusedTransaction: what the kernel does not take is an error, and changes nothing.
func TestRefusedTransaction(t *testing.T) {
	must(t, portholeRules(testSpec("u1").normal(), something).commit())
	t.Cleanup(func() { run(t, "nft", "delete", "table", "inet", tableName) })
	before, was := run(t, "nft", "list", "ruleset"), generationOf(t)
	for name, spoil := range map[string]func(*transaction){
		"a chain that is not there":    func(t *transaction) { t.rule("nowhere", drop()) },
		"a set that is not there":      func(t *transaction) { t.rule("forward", in("nowhere"), drop()) },
		"chains that lead in a circle": func(t *transaction) { t.rule("refuse", goTo("in")); t.rule("in", goTo("refuse")) },
		"an element twice, that leads to two": func(t *transaction) {
			t.pods(unix.NFT_MSG_NEWSETELEM, []Pod{{Own: netip.MustParseAddr("10.0.0.5"), Face: netip.MustParseAddr("100.64.0.99")}})
		},
		"an element that is not there": func(t *transaction) { t.pods(unix.NFT_MSG_DELSETELEM, testPods(99)) },
		"a translation in a filter":    func(t *transaction) { t.rule("forward", snatTo(netip.MustParseAddr("192.0.2.1"))) },
	} {
		t.Run(name, func(t *testing.T) {
			change := &transaction{}
			change.chain("harmless")
			spoil(change)
			if err := change.commit(); err == nil {
				t.Error("the kernel takes it")
			} else {
				t.Log(err)
			}
			// What is spoilt in the middle fails, too, although the last message would not.
			change = &transaction{}
			spoil(change)
			change.chain("harmless")
			if err := change.commit(); err == nil {
				t.Error("the kernel takes it in the middle")
			}
			if diff := cmp.Diff(before, run(t, "nft", "list", "ruleset")); diff != "" {
				t.Errorf("it has changed something: -before +after:\n%s", diff)
			}
		})
	}
	if now := generationOf(t); now != was {
		t.Errorf("the generation has changed from %d to %d", was, now)
	}
}

func generationOf(t *testing.T) uint32 {
	t.Helper()
	n, err := generation()
	must(t, err)
	return n
}

// run is what a program says; it must not fail.
func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v %s", command, err, out)
	}
	return string(out)
}
