package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// manyNetworks are a thousand of twenty tenants: most have no peers, some those of their tenant, and those of one tenant all have the same.
func manyNetworks() (out []api.Topology) {
	for i := range 1000 {
		t := api.Topology{}
		t.Name = fmt.Sprintf("network-%03d", i)
		t.Status = api.TopologyStatus{
			Type: "vpc", Phase: "Ready", Tenant: fmt.Sprintf("tenant-%02d", i%20), Router: t.Name, Pods: 2,
			Nodes: []api.NodePods{{Node: "n1", Pods: 2}},
			Subnets: []api.TopologySubnet{
				{Name: "a", Switch: t.Name + "/a", CIDRs: []string{"10.0.0.0/24"}, Gateways: []string{"10.0.0.1"}, Pods: 2},
			},
		}
		peer := func(network, direction string) {
			t.Status.Peers = append(t.Status.Peers, api.Peer{Network: network, Direction: direction, Mode: "ByFace", State: "Active"})
		}
		switch {
		case i == 0:
			for j := 1; j < 1000; j++ {
				if j%20 == 7 {
					peer(fmt.Sprintf("network-%03d", j), "Serves")
				}
			}
		case i%20 == 7:
			peer("network-000", "Uses")
		case i%20 == 3 && i < 100:
			peer(fmt.Sprintf("network-%03d", (i+20)%100), "Uses")
			peer(fmt.Sprintf("network-%03d", (i+80)%100), "Serves")
		}
		out = append(out, t)
	}
	return out
}

// TestAThousandNetworksAreReadable: those that are alike are counted, in a tree and in pictures; --all shows each.
func TestAThousandNetworksAreReadable(t *testing.T) {
	t.Parallel()
	all := manyNetworks()
	folded, unfolded := topologiesAnswer(all, "", false, false), topologiesAnswer(all, "", true, false)
	for _, format := range []string{formatTable, formatDot, formatMermaid} {
		text := func(answer answered) string {
			var out bytes.Buffer
			if err := (&asked{output: format}).print(&out, &out, "it", answer); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		var short, long string
		took := time.Hour
		for range 3 {
			began := time.Now()
			short, long = text(folded), text(unfolded)
			took = min(took, time.Since(began))
		}
		t.Logf("%s: %d and %d bytes in %s", format, len(short), len(long), took.Round(time.Millisecond))
		if took > time.Second {
			t.Errorf("%s took %s", format, took)
		}
		if format != formatDot {
			golden(t, filepath.Join("testdata", "topology-thousand."+format), short)
		}
		if lines := strings.Count(short, "\n"); format == formatTable && lines > 80 {
			t.Errorf("a thousand Networks take %d lines", lines)
		}
		for _, other := range all {
			if !strings.Contains(long, other.Name) {
				t.Fatalf("--all -o %s does not show %s", format, other.Name)
			}
		}
	}
}

// TestColors: words are in colours where they are seen, and then alone.
func TestColors(t *testing.T) {
	text := func(p paint) string {
		var out strings.Builder
		topologyTree(&out, manyNetworks()[:25], false, false, p)
		return out.String()
	}
	plain, painted := text(false), text(true)
	if strings.Contains(plain, "\x1b") {
		t.Error("it is painted where nobody sees colours")
	}
	if !strings.Contains(painted, "\x1b[32mReady\x1b[0m") {
		t.Error("it is not painted")
	}
	for _, color := range []string{bold, red, green, yellow, "0"} {
		painted = strings.ReplaceAll(painted, "\x1b["+color+"m", "")
	}
	if painted != plain {
		t.Error("with colours it says something else")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	if colored(file) || colored(&bytes.Buffer{}) {
		t.Error("a file is no terminal")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	// The control is a terminal itself, where there is one to be had.
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !colored(terminal) {
		t.Error("a terminal shows no colours")
	}
	t.Setenv("NO_COLOR", "1")
	if colored(terminal) {
		t.Error("NO_COLOR counts for nothing")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if colored(terminal) {
		t.Error("a dumb terminal shows colours")
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestArrowsMeet: what both Networks tell of one another is one arrow, and what is so in both directions one with two heads.
func TestArrowsMeet(t *testing.T) {
	t.Parallel()
	network := func(name string, peers ...api.Peer) (t api.Topology) {
		t.Name, t.Status.Peers = name, peers
		return t
	}
	peer := func(network, direction, state string) api.Peer {
		return api.Peer{Network: network, Direction: direction, Mode: "ByFace", State: state}
	}
	g := topologyGraph([]api.Topology{
		network("a", peer("b", "Uses", "Active"), peer("c", "Uses", "Active"), peer("c", "Serves", "Active"), peer("d", "Serves", "Waiting")),
		network("b", peer("a", "Serves", "Active")), network("c", peer("a", "Uses", "Active"), peer("a", "Serves", "Active")),
	}, false)
	var have []string
	for _, e := range g.Edges {
		have = append(have, fmt.Sprint(e.From, e.To, " ", e.Label, " ", e.Both, " ", e.Dashed))
	}
	if want := []string{"ab ByFace false false", "ac ByFace true false", "da ByFace, Waiting false true"}; !slices.Equal(have, want) {
		t.Errorf("the arrows are %q, want %q", have, want)
	}
	if len(g.Boxes) != 4 || !g.Boxes[3].Faint {
		t.Errorf("a Network that is known by its peer alone has no box: %+v", g.Boxes)
	}
}
