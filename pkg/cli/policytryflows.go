package cli

import (
	"fmt"
	"strings"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// trialFlows says which flows that were seen would be decided otherwise.
func trialFlows(text *strings.Builder, f api.TrialFlows, wide bool) {
	age := ageText(f.Since.Duration)
	if f.Problem != "" {
		fmt.Fprintf(text, "Of the flows of the last %s nothing is known: %s.\n", age, snapshot.Printable(strings.TrimSuffix(f.Problem, ".")))
		return
	}
	if len(f.Changes) > 0 {
		fmt.Fprintln(text)
		rows := maxRows
		if wide {
			rows = len(f.Changes)
		}
		lines := [][]string{{"LAST", "FROM", "TO", "PORT", "COUNT", "WAS", "WOULD BE", "BY"}}
		for _, c := range f.Changes[:min(rows, len(f.Changes))] {
			cells := flowCells(c.Flow, false, time.Local)
			decides := strings.Join(c.After.Deciders, "; ")
			if decides == "" {
				decides = "no policy"
			}
			from, to := placeText(c.Flow.From, wide), placeText(c.Flow.To, wide)
			lines = append(lines, []string{cells[0], from, to, cells[4], cells[7], cells[5], allowWord(c.After), decides})
		}
		columns(text, lines...)
		if more := f.Stopped + f.Allowed - len(lines) + 1; more > 0 {
			fmt.Fprintf(text, "and %d more (-o wide, -o json)\n", more)
		}
		fmt.Fprintln(text)
	}
	fmt.Fprintf(text, "Of %s of the last %s it would have stopped %d, and newly allowed %d.\n", model.Count(f.Seen, "flow"), age, f.Stopped,
		f.Allowed)
	if f.Unsampled > 0 {
		fmt.Fprintf(text, "Pods that it selects and that no policy selects yet, so that nothing was seen at them: %d.\n", f.Unsampled)
	}
	if f.Unjudged > 0 {
		fmt.Fprintf(text, "Not judged, since a pod has gone, is somebody else's, or many were counted as one: %d.\n", f.Unjudged)
	}
	if note := flows.Missing(f.Status); note != "" {
		fmt.Fprintf(text, "Of flows, %s.\n", note)
	}
}
