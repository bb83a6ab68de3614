package matrix

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict says whether a Matrix is as it should be.
type Verdict struct {
	// Total counts paths; Reached and Apart those of them that came out as expected, by what was expected.
	Total, Reached, Apart int
	// Own counts those of Apart where the source's own Network has the address too.
	Own int
	// Networks are the names of those that were probed.
	Networks []string
	// Failures say in words what is wrong; empty when all is as expected.
	Failures []string
}

// OK reports whether all is as expected.
func (v Verdict) OK() bool { return len(v.Failures) == 0 }

// String is the verdict in one line.
func (v Verdict) String() string {
	word := "PASS"
	if !v.OK() {
		word = "FAIL"
	}
	return fmt.Sprintf(
		"%s: %d of %d paths as expected: %d reached within %s, %d stayed apart (%d of them to an address that both Networks have)",
		word, v.Reached+v.Apart, v.Total, v.Reached, strings.Join(v.Networks, ", "), v.Apart, v.Own)
}

// Verdict judges the whole matrix.
func (m *Matrix) Verdict() Verdict {
	v := Verdict{Total: len(m.Paths)}
	heard := make([]bool, len(m.Pods))
	reachable := make([]bool, len(m.Pods))
	for _, p := range m.Paths {
		if p.Outcome == Reached {
			heard[p.From], reachable[p.To] = true, true
		}
		switch {
		case !m.AsExpected(p):
			v.Failures = append(v.Failures, m.explain(p))
		case p.Outcome == Reached:
			v.Reached++
		default:
			v.Apart++
			if p.Outcome == Own {
				v.Own++
			}
		}
	}
	for i, pod := range m.Pods {
		if !slices.Contains(v.Networks, pod.Network) {
			v.Networks = append(v.Networks, pod.Network)
		}
		// A broken prober is silent too, and so is a broken target.
		if !heard[i] {
			v.Failures = append(v.Failures, fmt.Sprintf("%s reached nobody: its silence proves nothing", pod))
		}
		if !reachable[i] {
			v.Failures = append(v.Failures, fmt.Sprintf("%s was reached by nobody: silence towards it proves nothing", pod))
		}
	}
	if len(m.Pods) == 0 {
		v.Failures = append(v.Failures, "no pods: nothing was probed")
	}
	return v
}
