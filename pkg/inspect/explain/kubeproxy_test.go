package explain

import (
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/test/inspected"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// TestKubeProxyLeadsToEachEndpoint: a pod with direct access dials a Service that its Network does not know. kube-proxy leads it
// to one of four faces: that of a provider's pod is reached, and those of the others are refused. (Found by real packets: make
// explain-packets SEED=2.)
func TestKubeProxyLeadsToEachEndpoint(t *testing.T) {
	t.Parallel()
	w, _ := inspected.BetweenWorld(t, between.Draw(2, []string{"n1", "n2", "n3"}).Change(2))
	w.Objects.Networks["between-2"].Infra = model.InfraDirect
	w.Settle()
	got, err := Explain(explainable(w), question.Question{
		From: question.End{Pod: model.PodKey{Namespace: "between-0", Name: "p20"}}, To: question.End{
			Address: w.Objects.Services[model.ServiceKey{Namespace: "between-5", Name: "web"}].ClusterIPs[0],
		},
		Protocol: model.TCP, Port: wire.DefaultPort,
	})
	if err != nil {
		t.Fatal(err)
	}
	reached, open := outcome(got)
	if !slices.Equal(reached, []string{"pod between-5/p25"}) || !open || len(got.Ways) != 4 {
		t.Errorf("of %d ways it reaches %q (others, too: %t): %s", len(got.Ways), reached, open, got.Verdict())
	}
}
