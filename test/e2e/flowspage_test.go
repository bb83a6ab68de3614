//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// drawnFlows is what the map of the page draws of flows.
type drawnFlows struct {
	Edges []struct{ From, To, Label, Says, State, Link string }
	Why   string
}

// flowsOnThePage: each user's page shows the flows between pods of a Network that the user may see, with rate, verdict and policy,
// as edges and in words, and explains them. The page of one user shows nothing of another user's Network. send makes web and
// stranger call db in each Network.
func flowsOnThePage(t *testing.T, send func(), users map[string]string, one, others string) {
	t.Helper()
	rate := regexp.MustCompile(`^[0-9.]+/(min|s) (allowed|dropped)\n`)
	for kubeconfig, network := range users {
		p := env.startPage(t, "--kubeconfig="+kubeconfig)
		inside := "network/" + network + "/pod/" + network + "/"
		var stopped string
		cluster.Eventually(t, cluster.Patience, "the page has the flows of "+network, func(ctx context.Context) error {
			send()
			status, text, err := p.get(ctx, "/graph/flows?open="+network+"&pods="+network)
			if err != nil || status != http.StatusOK {
				return fmt.Errorf("status %d, %w: %s", status, err, text)
			}
			var drawn drawnFlows
			if err := json.Unmarshal([]byte(text), &drawn); err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			allowed, dropped := "", ""
			for _, e := range drawn.Edges {
				switch {
				case !rate.MatchString(e.Label):
					return fmt.Errorf("an edge without rate and verdict: %+v", e)
				case e.From == inside+"web" && e.To == inside+"db" && e.State == "good" &&
					strings.Contains(e.Label, "allowed\nNetworkPolicy/"+network+"/db-from-web"):
					allowed = e.Link
				case e.From == inside+"stranger" && e.To == inside+"db" && e.State == "bad" && strings.Contains(e.Label, "dropped\n"+nb.Isolation):
					dropped = e.Link
				}
			}
			if kubeconfig == one && strings.Contains(text, others) {
				t.Fatalf("the page of who may see %s has %s: %s", network, others, text)
			}
			if allowed == "" || dropped == "" {
				return fmt.Errorf("the map has %s", text)
			}
			stopped = dropped
			return nil
		})
		// Who opens the edge reads the same in words, and why it is stopped.
		status, text, err := p.get(t.Context(), stopped)
		if err != nil || status != http.StatusOK {
			t.Errorf("%s: status %d, %v", stopped, status, err)
		}
		for _, want := range []string{
			network + "/stranger", network + "/db", "drop", nb.Isolation, "Stopped: " + network + "/stranger to " + network + "/db",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q: %s", stopped, want, text)
			}
		}
		_, text, err = p.get(t.Context(), "/flows")
		if err != nil || !strings.Contains(text, "NetworkPolicy/"+network+"/db-from-web") || kubeconfig == one && strings.Contains(text, others) {
			t.Errorf("the table of %s: %v: %s", network, err, text)
		}
		// An hour ago there was nothing: neither had been made.
		if _, text, err := p.get(t.Context(), "/graph/flows?minutes=-55"); err != nil || strings.Contains(text, network) ||
			!strings.Contains(text, "55 minutes ago") {
			t.Errorf("an hour ago: %v: %s", err, text)
		}
	}
}
