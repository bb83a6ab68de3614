package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Monitoring says where the programs of Prometheus are, which judge alerts in tests.
type Monitoring struct {
	// Prometheus is the server, Promtool what tests its rules.
	Prometheus, Promtool string
}

// prometheusPackages are all that the two programs need: Debian links them with nothing but the C library. What else the package
// depends on is of its web pages.
var prometheusPackages = []string{"libc6", "prometheus", "promtool"}

// GatherMonitoring makes what is not there yet: Debian's packages, unpacked in the cache with their own C library, and never installed.
func GatherMonitoring(ctx context.Context, need Need, note func(format string, args ...any)) (Monitoring, error) {
	prefix := filepath.Join(need.Cache, "prometheus", DebianSuite+"-"+runtime.GOARCH)
	bin := filepath.Join(prefix, "bin")
	m := Monitoring{Prometheus: filepath.Join(bin, "prometheus"), Promtool: filepath.Join(bin, "promtool")}
	if exists(prefix) {
		return m, nil
	}
	g := gatherer{need: need, note: note}
	if err := g.install(ctx, []debianPackage{{"patchelf", []string{"/usr/bin/patchelf"}}}); err != nil {
		return Monitoring{}, err
	}
	debs, _, err := GatherPackages(ctx, need, DebianPackages{Architecture: runtime.GOARCH, Names: prometheusPackages}, note)
	if err != nil {
		return Monitoring{}, err
	}
	err = complete(ctx, prefix, func(partial string) error {
		return unpackPrograms(ctx, unpacking{
			debs: debs, dir: partial, final: prefix, programs: []string{"usr/bin/prometheus", "usr/bin/promtool"},
		})
	})
	if err != nil {
		return Monitoring{}, err
	}
	for _, program := range []string{m.Prometheus, m.Promtool} {
		if _, err := command(ctx, "/", nil, program, "--version"); err != nil {
			return Monitoring{}, errors.Join(fmt.Errorf("run Prometheus from %s: %w", prefix, err), os.RemoveAll(prefix))
		}
	}
	return m, nil
}
