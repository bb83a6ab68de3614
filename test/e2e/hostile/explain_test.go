//go:build e2e

package hostile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// explainedPaths is how many of a scene's paths are explained.
const explainedPaths = 500

// explainsWhatIsSeen compares explanations with what real packets did: whom they reach, and that they reach nobody.
func explainsWhatIsSeen(t *testing.T, world between.World, paths []random.Path, seen []random.Seen) {
	t.Helper()
	rows, err := inspect.ReadWorld(t.Context(), inspect.Access{
		Kubeconfig: env.Box.Kubeconfig(), Northbound: []string{env.Box.NBAddress()}, Southbound: []string{env.Box.SBAddress()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	placed, uids := world.Placed(), map[string]string{}
	for _, p := range placed {
		uids["pod "+p.String()] = p.UID
	}
	r := rand.New(rand.NewPCG(*seed, 3))
	var wrong []string
	reached := 0
	for _, i := range r.Perm(len(paths))[:min(explainedPaths, len(paths))] {
		path, from := paths[i], placed[paths[i].From]
		got, err := inspect.Explain(rows, inspect.Question{
			From:     inspect.End{Pod: model.PodKey{Namespace: from.Namespace, Name: from.Name}},
			To:       inspect.End{Address: path.Address},
			Protocol: model.Protocol(path.Protocol), Port: wire.DefaultPort,
		})
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", path.String(placed), err))
			continue
		}
		var may []string
		for _, w := range got.Ways {
			if w.Reached {
				may = append(may, uids[w.To])
			}
		}
		answer := seen[i].Result
		switch {
		case answer.Answered && !slices.Contains(may, answer.Answerer.UID):
			wrong = append(wrong, fmt.Sprintf("%s: %s answered; explained: %s", path.String(placed), answer.Answerer, got.Verdict()))
		case got.Reached && !answer.Answered:
			wrong = append(wrong, fmt.Sprintf("%s: nobody answered; explained: %s", path.String(placed), got.Verdict()))
		case got.Reached:
			reached++
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%d paths are explained otherwise than packets went:\n%s", len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	t.Logf("%d paths explained as packets went, %d of them reached", min(explainedPaths, len(paths))-len(wrong), reached)
	if reached == 0 {
		t.Error("no path that is reached was explained")
	}
}
