//go:build integration

package agree_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/policy/agree"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/random"
)

func openLab(t *testing.T) *agree.Lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	l, err := agree.OpenLab(t.Context(), ovn.Start(t, true), dir, datapath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// realPackets: a run tries clusters, from the seed on, until so many real packets have been judged.
var realPackets = flag.Int("packets", 800, "how many real packets to judge")

// TestRandomWithPackets: two nodes do with real packets in random clusters what the oracle says. A case that fails is made
// small; it belongs in cases/testdata.
func TestRandomWithPackets(t *testing.T) {
	lab := openLab(t)
	draw := random.Case(packetsPerCluster)
	judged, denied, s := 0, 0, *seed
	for ; judged < *realPackets; s++ {
		c := draw.Example(s)
		disagreements, asked, err := lab.Try(t.Context(), c)
		if err != nil {
			t.Fatalf("seed %d: %v", s, err)
		}
		judged += asked
		for _, p := range c.Packets {
			if !c.Judge(p.Packet).Allowed {
				denied++
			}
		}
		if len(disagreements) > 0 {
			lab.Hurry()
			t.Fatalf("seed %d: %d of %d packets: %s", s, len(disagreements), asked, explain(t, trying(lab), c, disagreements[0]))
		}
	}
	said(t, "what two nodes do", judged, s-*seed, denied)
}

// TestCasesWithPackets: two nodes do with real packets what each case says.
func TestCasesWithPackets(t *testing.T) { eachCase(t, trying(openLab(t))) }

func trying(l *agree.Lab) trier {
	return func(ctx context.Context, c cases.Case) ([]agree.Disagreement, error) {
		disagreements, _, err := l.Try(ctx, c)
		return disagreements, err
	}
}
