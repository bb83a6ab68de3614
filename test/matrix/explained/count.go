package explained

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Count sums up paths, by what is said of them.
func Count(questions []Question, said []Said) string {
	kinds, verdicts, protocols, dialled := map[string]int{}, map[Verdict]int{}, map[string]int{}, 0
	for i, q := range questions {
		kinds[string(q.Kind)]++
		protocols[q.Spec.Protocol]++
		verdicts[said[i].Verdict()]++
		dialled += len(q.Dial)
	}
	return fmt.Sprintf("%d paths (%s; %s), %d addresses dialled; %d reached, %d stopped, %d either", len(questions), Join(kinds),
		Join(protocols), dialled,
		verdicts[Reached], verdicts[Stopped], verdicts[Either])
}

// Join writes counts in the order of their names.
func Join(counts map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(words, ", ")
}
