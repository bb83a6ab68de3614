// Package suite runs upstream's conformance tests of Gateway API for what Atoll serves of it: TCPRoute and UDPRoute.
//
//	KUBECONFIG=... go test -c -o suite.test . && ./suite.test -test.v -report=FILE
//
// It runs where the addresses of Gateways of the default Network can be dialled; ../main.go provides that.
package suite

import (
	"bytes"
	"flag"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

var report = flag.String("report", "", "file for the report that upstream defines")

// exceptions are tests of the profiles that Atoll cannot pass, and why.
func exceptions() map[string]string {
	const http = "its Gateways have HTTP or HTTPS listeners only, and it expects them to be served"
	return map[string]string{
		"GatewayListenerUnsupportedProtocol":        http,
		"TCPRouteInvalidNonTCPListener":             http,
		"GatewayInvalidRouteKind":                   http,
		"GatewayInvalidTLSConfiguration":            http,
		"GatewayModifyListeners":                    http,
		"GatewayObservedGenerationBump":             http,
		"GatewaySecretInvalidReferenceGrant":        http,
		"GatewaySecretMissingReferenceGrant":        http,
		"GatewaySecretReferenceGrantAllInNamespace": http,
		"GatewaySecretReferenceGrantSpecific":       http,
	}
}

// base is the name of what is left of upstream's base manifests.
const base = "base/served.yaml"

func TestGatewayAPI(t *testing.T) {
	o := conformance.DefaultOptions(t)
	o.GatewayClassName = "atoll"
	o.ConformanceProfiles = []suite.ConformanceProfileName{suite.GatewayTCPConformanceProfileName, suite.GatewayUDPConformanceProfileName}
	o.BaseManifests = base
	o.ManifestFS = []fs.FS{withoutGateways(t), &conformance.Manifests}
	o.ReportOutputPath = *report
	o.Implementation = confv1.Implementation{
		Organization: "atoll-net", Project: "atoll", URL: "https://github.com/atoll-net/atoll", Version: "main", Contact: []string{"@atoll-net"},
	}
	for name, why := range exceptions() {
		t.Logf("left out: %s: %s", name, why)
		o.SkipTests = append(o.SkipTests, name)
	}
	conformance.RunConformanceWithOptions(t, o)
}

// withoutGateways has upstream's base manifests without the Gateways in them: all listen by HTTP and HTTPS, and every test
// would wait until they are served.
func withoutGateways(t *testing.T) fs.FS {
	t.Helper()
	whole, err := fs.ReadFile(&conformance.Manifests, "base/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kept [][]byte
	left := 0
	for document := range bytes.SplitSeq(whole, []byte("\n---\n")) {
		if strings.Contains("\n"+string(document), "\nkind: Gateway\n") {
			left++
			continue
		}
		kept = append(kept, document)
	}
	if left == 0 {
		t.Fatal("the base manifests have no Gateways: look at them again")
	}
	return fstest.MapFS{base: &fstest.MapFile{Data: bytes.Join(kept, []byte("\n---\n"))}}
}
