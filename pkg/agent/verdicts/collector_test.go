package verdicts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// The rules of a policy are one series; what is beyond the bound is counted, and nobody's in particular.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	counts := []model.VerdictCount{
		{Network: "red", Policy: "a", Direction: "Ingress", Rule: "0", Verdict: "allow", Packets: 1},
		{Network: "red", Policy: "a", Direction: "Ingress", Rule: "1", Verdict: "allow", Packets: 2},
		{Network: "red", Policy: "a", Direction: "Ingress", Rule: "isolation", Verdict: "drop", Packets: 4},
	}
	for i := range 5 {
		counts = append(counts, model.VerdictCount{Network: "red", Policy: fmt.Sprint("b", i), Direction: "Egress", Verdict: "drop", Packets: 10})
	}
	want := map[labels]uint64{
		{"red", "a", "Ingress", "allow"}:                 3,
		{"red", "a", "Ingress", "drop"}:                  4,
		{"red", "b0", "Egress", "drop"}:                  10,
		{otherPolicies, otherPolicies, "Egress", "drop"}: 40,
	}
	if diff := cmp.Diff(want, seriesOf(counts, 3)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Who asks while the southbound database or the bridge are away hears why, and the log says it once.
func TestVerdictsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	why := errors.New("external_ids:ovn-remote is not set")
	v := New(Config{
		Node: "n1", Socket: "/nowhere/br-int.mgmt", Log: slog.New(slog.NewTextHandler(&log, nil)),
		Southbound: func(context.Context, func(*ovsdb.Reader) error) error { return why },
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Serve(ctx) }()
	for range 3 {
		if counts, err := v.Ask(t.Context(), false); !errors.Is(err, why) || len(counts) > 0 {
			t.Errorf("got %v, %v", counts, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "not counted"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	// Nobody answers any more, and who asks does not wait for ever.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Ask(gone, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
