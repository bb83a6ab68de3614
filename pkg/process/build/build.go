// Package build tells which build of a program runs, and where its metrics are.
package build

import (
	"net/netip"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector is the metric PROGRAM_build_info, which is always 1: what it tells is in its labels.
func Collector(program string) prometheus.Collector {
	version, revision := read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: program + "_build_info", Help: "1; version and revision of the program, and the version of Go that built it.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// Version is the version of the program that runs.
func Version() string {
	version, _ := read()
	return version
}

func read() (version, revision string) {
	version, revision = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision
}

// ScrapeAddress is where metrics are served that an address, with or without a port, asks for.
func ScrapeAddress(text string, port uint16) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, port).String()
	}
	return text
}
