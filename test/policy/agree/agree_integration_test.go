//go:build integration

package agree_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/policy/agree"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/random"
)

func open(t *testing.T) *agree.Bench {
	t.Helper()
	b, err := agree.Open(t.Context(), ovn.Start(t, true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestCases: OVN does with the rows of each case what the case says.
func TestCases(t *testing.T) {
	bench := open(t)
	eachCase(t, bench.Try)
}

// eachCase tries the cases that are files.
func eachCase(t *testing.T, try trier) {
	t.Helper()
	files, err := filepath.Glob("../cases/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, err := cases.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			disagreements, err := try(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range disagreements {
				t.Errorf("%s\n%s", d, d.Trace)
			}
		})
	}
}

// packetsPerCluster: to change the rows costs as much as more packets than these.
const packetsPerCluster = 50

// A run tries this many clusters, by the seeds from the first on. The same seed always gives the same cluster.
var (
	clusters = flag.Int("clusters", 60, "how many random clusters to try")
	seed     = flag.Int("seed", 1, "the seed of the first")
)

// TestRandom: OVN does with the rows of random clusters what the oracle says. A case that fails is made small; it belongs
// in cases/testdata.
func TestRandom(t *testing.T) {
	bench := open(t)
	draw := random.Case(packetsPerCluster)
	packets, denied := 0, 0
	for s := *seed; s < *seed+*clusters; s++ {
		c := draw.Example(s)
		disagreements, err := bench.Try(t.Context(), c)
		if err != nil {
			t.Fatalf("seed %d: %v", s, err)
		}
		packets += len(c.Packets)
		for _, p := range c.Packets {
			if !c.Judge(p.Packet).Allowed {
				denied++
			}
		}
		if len(disagreements) > 0 {
			t.Fatalf("seed %d: %d of %d packets: %s", s, len(disagreements), len(c.Packets), explain(t, bench.Try, c, disagreements[0]))
		}
	}
	said(t, "ovn-trace", packets, *clusters, denied)
}

// said has a test say what it did, for suites to print.
func said(t *testing.T, who string, packets, clusters, denied int) {
	t.Helper()
	t.Attr("packets", fmt.Sprintf("%d in %d clusters: %s agrees with the oracle; %d were to be denied", packets, clusters, who, denied))
}

// explain makes a case smaller in which a packet fails, and says what is left.
func explain(t *testing.T, try trier, c cases.Case, d agree.Disagreement) string {
	t.Helper()
	c.Packets = []cases.Packet{d.Packet}
	small := cases.Shrink(c, func(c cases.Case) bool {
		got, err := try(t.Context(), c)
		if err != nil || len(got) == 0 || got[0].What != d.What {
			return false
		}
		d = got[0]
		return true
	})
	small.About, small.Packets[0].Verdict = d.What, d.Verdict.String()
	text, err := small.Text()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s\n%s\n%s", d, text, d.Trace)
}

// trier tries a case and returns what disagrees.
type trier func(context.Context, cases.Case) ([]agree.Disagreement, error)
