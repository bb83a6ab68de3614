//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	questions "github.com/atoll-net/atoll/test/reach"
)

// TestReach asks the questions of the demo: names, a Service, the Kubernetes API, the outside.
func TestReach(t *testing.T) {
	env.checkReach(t, matrixWithin)
}

// checkReach asks until all answers are as expected.
func (c *suite) checkReach(t *testing.T, within time.Duration) {
	t.Helper()
	cluster.Eventually(t, within, "all answers as expected", func(ctx context.Context) error {
		rows, err := questions.Ask(ctx, c.Exec, c.Clients.Kube, questions.Example(), questions.SandboxOutside())
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("nothing was asked")
		}
		var text strings.Builder
		if err := questions.Print(&text, questions.Example(), rows); err != nil {
			return err
		}
		if questions.Failures(rows) > 0 {
			return fmt.Errorf("\n%s", text.String())
		}
		t.Log("\n" + text.String())
		return nil
	})
}
