package names

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// TestAnAbsentOpenerIsSaidOnce: while the program that opens sockets is away, a look says so once, however many portholes a node has.
func TestAnAbsentOpenerIsSaidOnce(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	metrics, err := dns.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		networks: newNetworks(), node: dns.NewNode(dns.Config{Metrics: metrics, Log: log}), log: log,
		opener: sockets.Client{Socket: filepath.Join(t.TempDir(), "portholes.sock")},
	}
	defer s.node.Close()
	var here []porthole.ID
	for i := range 3 {
		uid := fmt.Sprintf("uid-%d", i)
		s.networks.set(&model.Network{Name: fmt.Sprintf("red-%d", i), UID: uid})
		here = append(here, porthole.IDOf(uid))
	}
	s.follow(t.Context(), here)
	if got := strings.Count(logged.String(), "level=WARN"); got != 1 || !strings.Contains(logged.String(), sockets.ErrAway.Error()) {
		t.Errorf("%d warnings, want one of an absent opener:\n%s", got, logged.String())
	}
}
