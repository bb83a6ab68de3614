package oracle_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// TestTheAPIsText: each case is what the API, or Networks, say in words; its verdicts were written by hand.
func TestTheAPIsText(t *testing.T) {
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
			if c.About == "" || len(c.Packets) == 0 {
				t.Error("the case says nothing")
			}
			for _, p := range c.Packets {
				if got := c.Judge(p.Packet).String(); got != p.Verdict {
					t.Errorf("%+v:\n got %s\nwant %s", p.Packet, got, p.Verdict)
				}
			}
		})
	}
}

// TestAStrangerIsNoPod: a packet that names a pod of another Network, or none that there is, arrives nowhere.
func TestAStrangerIsNoPod(t *testing.T) {
	c, err := cases.Read("../cases/testdata/networks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	packet := c.Packets[0].Packet
	for _, pod := range []string{"shop/twin", "x/nobody"} {
		for _, end := range []*oracle.End{&packet.From, &packet.To} {
			before := *end
			end.Pod = pod
			if v := c.Judge(packet); v.Allowed || v.Egress.Why != oracle.Astray {
				t.Errorf("a packet of Network %s with %s: %s", packet.Network, pod, v)
			}
			*end = before
		}
	}
}
