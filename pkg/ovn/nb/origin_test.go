package nb

import (
	"strings"
	"testing"
)

func TestOriginComesThroughAMatch(t *testing.T) {
	for _, o := range []Origin{
		{Network: "red", Policy: "NetworkPolicy/red/db-from-web", Direction: "Ingress", Rule: "0", Verdict: "allow"},
		{Network: "red", Policy: Isolation, Direction: "Egress", Verdict: "drop"},
		{Network: "default", Policy: "ClusterNetworkPolicy/a.b", Direction: "Egress", Rule: "12", Verdict: "pass"},
	} {
		flow := "reg8[30..31] == 2 && reg0[7] == 1 && (outport == @g && ip" + o.Comment() + ")"
		if got, found := OriginOf(flow); !found || got != o {
			t.Errorf("%s gave %+v, %t", flow, got, found)
		}
	}
}

// Whatever a name holds, it stays inside of its comment, and one word.
func TestOriginHoldsNamesInside(t *testing.T) {
	text := Origin{Network: "red", Policy: "NetworkPolicy/x */ || ip4 /* y", Direction: "Ingress", Rule: "0", Verdict: "allow"}.Comment()
	if n := strings.Count(text, "*/"); n != 1 || !strings.HasSuffix(text, "*/") {
		t.Errorf("the comment %q ends in %d places", text, n)
	}
	if o, found := OriginOf(text); !found || o.Policy != "NetworkPolicy/x??/????ip4?/??y" {
		t.Errorf("%q gave %+v", text, o)
	}
}

func TestOriginOfOthers(t *testing.T) {
	for _, match := range []string{"", "1", "ip4 /* somebody's */", "ip4 /* atoll too few words */", "ip4 /* atoll it does not end"} {
		if o, found := OriginOf(match); found {
			t.Errorf("%q gave %+v", match, o)
		}
	}
}
