package openflow

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flow is an ofp_flow_stats of table 45: priority 9, 7 packets, metadata 3 and reg15 6, with an instruction behind it.
func flow() []byte {
	var fixed [48]byte
	fixed[2], fixed[13], fixed[39] = 45, 9, 7
	out := append(fixed[:], 0, 1, 0, 4+12+8)
	out = append(out, 0x80, 0, 2<<1, 8, 0, 0, 0, 0, 0, 0, 0, 3)
	out = append(out, 0, 1, 15<<1, 4, 0, 0, 0, 6)
	out = append(out, 0, 4, 0, 8, 0, 0, 0, 0)
	out[1] = byte(len(out))
	return out
}

func TestFlowsAreRead(t *testing.T) {
	want := Flow{Table: 45, Priority: 9, Packets: 7, Datapath: 3, OutPort: 6}
	got, err := flowsOf(append(flow(), flow()...))
	if diff := cmp.Diff([]Flow{want, want}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// What is cut off anywhere is an error, and no reading beyond the end.
func TestFlowsThatAreCutOff(t *testing.T) {
	whole := flow()
	for n := 1; n < len(whole); n++ {
		if got, err := flowsOf(whole[:n]); err == nil {
			t.Errorf("of %d bytes: %+v", n, got)
		}
	}
}

func FuzzFlows(f *testing.F) {
	f.Add(flow())
	f.Fuzz(func(t *testing.T, body []byte) {
		flows, err := flowsOf(body)
		if err == nil && len(flows) > len(body)/48 {
			t.Errorf("%d flows of %d bytes", len(flows), len(body))
		}
	})
}
