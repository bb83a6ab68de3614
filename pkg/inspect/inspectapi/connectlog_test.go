package inspectapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/wait"
)

// TestConnectionsAreLogged: the log says who is connected, to what, whether the connection may write, and how much was refused.
func TestConnectionsAreLogged(t *testing.T) {
	t.Parallel()
	var leads atomic.Bool
	leads.Store(true)
	address := database(t, &leads)
	var logged synced
	w := &tunnels{}
	w.world = newWorldOf(t, func(h *handler) http.Handler {
		h.log = slog.New(slog.NewTextHandler(&logged, nil))
		asker := ovsdb.Asker{Config: ovsdb.Config{Addresses: []string{address}}, Database: ovsdb.NorthboundDatabase}
		return h.root(map[string]http.Handler{
			connectionPattern: newConnector(h, map[string]ovsdb.Asker{api.DatabaseNorthbound: asker}, defaultBounds()),
		})
	})
	conn, err := w.dial(t, "checker", "northbound", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{selects, inserts, inserts} {
		says(t, conn, request)
	}
	const whose = "user=checker database=northbound writes=false"
	if text := logged.String(); !strings.Contains(text, `msg="somebody is connected to a database" `+whose) {
		t.Errorf("the log of a beginning is %s", text)
	}
	_ = conn.Close()
	wait.Until(t, wait.Patience, "an end in the log", func() bool { return strings.Contains(logged.String(), "has ended") })
	if text := logged.String(); !strings.Contains(text, `msg="a connection to a database has ended" `+whose) ||
		!strings.Contains(text, " refused=2 ") {
		t.Errorf("the log of an end is %s", text)
	}
}

// synced is a log that may be read while it is written.
type synced struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
