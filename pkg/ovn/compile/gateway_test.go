package compile_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestGoldenGateways compiles each testdata/gateways/*.in.yaml: a Network, a Gateway, and what was decided about it.
func TestGoldenGateways(t *testing.T) {
	compareFiles(t, "testdata/gateways", ".out.yaml", compileGateway)
}

func compileGateway(t *testing.T, raw []byte) []byte {
	t.Helper()
	_, layout, _, documents := planFile(t, raw)
	var g gatewayv1.Gateway
	var decided struct {
		Addresses []netip.Addr
		Ports     []compile.GatewayPort
	}
	for i, into := range []any{&g, &decided} {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	write(t, &out, nb.GatewayOwner(g.Namespace, g.Name), compile.Gateway(*intake.Gateway(&g), layout, decided.Addresses, decided.Ports))
	return out.Bytes()
}

// shares are how often each port's number appears among the backends of a Gateway with these parts.
func shares(parts ...compile.Part) map[uint16]int {
	facts := compile.Gateway(model.Gateway{UID: "g"}, compile.Layout{Name: "red", UID: "n"}, []netip.Addr{netip.MustParseAddr("198.18.0.1")},
		[]compile.GatewayPort{{Protocol: model.TCP, Port: 80, Parts: parts}})
	out := map[uint16]int{}
	_, backends := nb.SplitPair(facts.Members[0].Value)
	for text := range strings.SplitSeq(backends, ",") {
		if a, err := netip.ParseAddrPort(text); err == nil {
			out[a.Port()]++
		}
	}
	return out
}

// part has so many endpoints, all with one port.
func part(weight int32, endpoints int, port uint16) compile.Part {
	p := compile.Part{Weight: weight}
	for i := range endpoints {
		p.Endpoints = append(p.Endpoints, netip.MustParseAddrPort(fmt.Sprintf("10.0.%d.%d:%d", i/250, i%250+1, port)))
	}
	return p
}

func TestWeightsAreShares(t *testing.T) {
	for name, test := range map[string]struct {
		parts []compile.Part
		want  map[uint16]int
	}{
		"nothing":                        {nil, map[uint16]int{}},
		"one part, whatever its weight":  {[]compile.Part{part(70, 2, 1)}, map[uint16]int{1: 2}},
		"equal weights":                  {[]compile.Part{part(1, 2, 1), part(1, 2, 2)}, map[uint16]int{1: 2, 2: 2}},
		"equal weights, unequal numbers": {[]compile.Part{part(1, 1, 1), part(1, 3, 2)}, map[uint16]int{1: 3, 2: 3}},
		"70 to 30 and 0":                 {[]compile.Part{part(70, 1, 1), part(30, 1, 2), part(0, 1, 3)}, map[uint16]int{1: 7, 2: 3}},
		"2 to 1, of 2 and 3":             {[]compile.Part{part(2, 2, 1), part(1, 3, 2)}, map[uint16]int{1: 6, 2: 3}},
		"one without endpoints":          {[]compile.Part{part(9, 0, 1), part(1, 1, 2)}, map[uint16]int{2: 1}},
		"rounded beyond what is told apart": {
			[]compile.Part{part(999, 1, 1), part(1, 1, 2)}, map[uint16]int{1: 256, 2: 1},
		},
		"more endpoints than are told apart": {[]compile.Part{part(1, 600, 1)}, map[uint16]int{1: 600}},
		"the largest weights":                {[]compile.Part{part(1_000_000, 7, 1), part(999_999, 11, 2)}, map[uint16]int{1: 126, 2: 132}},
	} {
		if diff := cmp.Diff(test.want, shares(test.parts...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
