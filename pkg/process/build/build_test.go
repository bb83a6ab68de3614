package build

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestScrapeAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:9411", "192.0.2.1:80": "192.0.2.1:80", "fd00::1": "[fd00::1]:9411", "[fd00::1]:80": "[fd00::1]:80",
	} {
		if got := ScrapeAddress(text, 9411); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestBuildInfo(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(Collector("atoll_test"))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "atoll_test_build_info" ||
		len(families[0].GetMetric()[0].GetLabel()) != 3 {
		t.Errorf("%v %v", families, err)
	}
}
