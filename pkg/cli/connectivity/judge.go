package connectivity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
)

// Verdict is how a path turned out.
type Verdict string

const (
	// OK: it is as expected.
	OK Verdict = "ok"
	// Failed: it is not.
	Failed Verdict = "failed"
	// NotTried: there is nothing to try it with; Seen says why.
	NotTried Verdict = "not tried"
)

// Result is what came of one path.
type Result struct {
	From     string  `json:"from"`
	Path     string  `json:"path"`
	Expected string  `json:"expected"`
	Seen     string  `json:"seen"`
	Verdict  Verdict `json:"verdict"`
	// Seconds are the time of the try that was answered, or of all tries.
	Seconds float64 `json:"seconds"`
	// Next is the command that says more, of a path that failed.
	Next string `json:"next,omitempty"`
}

// judge compares an answer with what is expected.
func judge(s scene, p path, a probe.Answer) Result {
	r := Result{From: p.from.String(), Path: p.title, Expected: p.expected(), Verdict: Failed, Seconds: a.Took.Seconds()}
	answerer, known := s.answerer(a.Answerer)
	switch w := p.wanted; {
	case w.missing:
		r.Seen = seenName(a)
		r.verdict(a.Missing)
	case p.question.Kind == probe.Name:
		r.Seen = seenName(a)
		r.verdict(a.Answered)
	case !a.Answered:
		r.Seen = whyNot(a.Error)
		r.verdict(w.nobody)
	case p.question.Kind == probe.API:
		r.Seen = "it answers"
		r.verdict(w.something)
	case p.question.Kind == probe.Connect:
		r.Seen = "a connection"
		r.verdict(w.something)
	default:
		r.Seen = answerer + " answers"
		r.verdict(known && slices.ContainsFunc(w.answerers, func(one podName) bool { return one.String() == answerer }))
	}
	if r.Verdict == Failed {
		r.Next = p.next
	}
	return r
}

func (r *Result) verdict(good bool) {
	if good {
		r.Verdict = OK
	}
}

// skip is the result of a path that is not tried.
func skip(p path) Result {
	return Result{From: p.from.String(), Path: p.title, Expected: p.expected(), Seen: p.skipped, Verdict: NotTried}
}

// started is the result of a pod's start: the kubelet makes it Ready by an HTTP probe.
func started(p pod) Result {
	r := Result{
		From: "kubelet " + p.node, Path: "pod " + p.String() + " starts, and an HTTP probe finds it", Expected: "Ready", Seen: "Ready",
		Verdict: OK,
		Seconds: p.took.Seconds(),
	}
	if !p.ready {
		r.Seen, r.Verdict, r.Next = p.why, Failed, "atoll pod "+p.full()
	}
	return r
}

// nodeResult is the result of a node that takes no pods for want of a network.
func nodeResult(n nodeWithout) Result {
	return Result{
		From: "kubelet " + n.name, Path: "the node has a network", Expected: "Ready", Seen: n.why, Verdict: Failed, Next: "atoll status",
	}
}

// answerer is the pod that has an identity, by its UID; known is whether it is one of ours.
func (s scene) answerer(who probe.Identity) (name string, known bool) {
	for _, p := range s.pods {
		if who.UID != "" && p.uid == who.UID {
			return p.String(), true
		}
	}
	return who.String(), false
}

func (p path) expected() string {
	switch w := p.wanted; {
	case w.nobody:
		return "nobody answers"
	case w.missing:
		return "does not exist"
	case p.question.Kind == probe.Name && len(p.question.Addresses) > 0:
		return listed(p.question.Addresses)
	case p.question.Kind == probe.Name:
		return "an address"
	case p.question.Kind == probe.API:
		return "it answers"
	case w.something:
		return "a connection"
	case len(w.answerers) == 0:
		return ""
	}
	var names []string
	for _, one := range p.wanted.answerers {
		names = append(names, one.String())
	}
	if len(names) == 1 {
		return names[0] + " answers"
	}
	return "one of " + strings.Join(names, ", ")
}

func seenName(a probe.Answer) string {
	switch {
	case a.Missing:
		return "does not exist"
	case len(a.Addresses) > 0:
		return listed(a.Addresses)
	}
	return whyNot(a.Error)
}

func listed(addresses []netip.Addr) string {
	sorted := slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)
	words := make([]string, len(sorted))
	for i, one := range sorted {
		words[i] = one.String()
		if !one.IsValid() {
			words[i] = "?"
		}
	}
	return strings.Join(words, " ")
}

// whyNot is an error of a try in few words. Go's errors have the addresses first, and the cause at the end.
func whyNot(text string) string {
	switch {
	case text == "":
		return "nobody answers"
	case strings.Contains(text, "refused"):
		return "nobody answers: refused"
	case strings.Contains(text, "deadline exceeded"), strings.Contains(text, "timeout"), strings.Contains(text, "Client.Timeout"):
		return "nobody answers: no packet back"
	case strings.Contains(text, "no route to host"), strings.Contains(text, "unreachable"):
		return "nobody answers: unreachable"
	}
	return "nobody answers: " + text
}

// Report is what a whole test found.
type Report struct {
	// Image is what the pods ran, and Nodes where.
	Image   string   `json:"image"`
	Nodes   []string `json:"nodes"`
	Results []Result `json:"results"`
	// Kept: the test's objects are still there.
	Kept bool `json:"kept"`
	// Seconds are the time of all of it.
	Seconds float64 `json:"seconds"`
}

// Count is how many results have a verdict.
func (r Report) Count(v Verdict) (n int) {
	for _, one := range r.Results {
		if one.Verdict == v {
			n++
		}
	}
	return n
}

// Summary is the report in a line.
func (r Report) Summary() string {
	failed, skipped := r.Count(Failed), r.Count(NotTried)
	text := fmt.Sprintf("PASS: %d paths as expected", r.Count(OK))
	if failed > 0 {
		text = fmt.Sprintf("FAIL: %d paths as expected, %d not", r.Count(OK), failed)
	}
	if skipped > 0 {
		text += fmt.Sprintf(", %d not tried", skipped)
	}
	return fmt.Sprintf("%s, on %s, after %s", text, strings.Join(r.Nodes, " and "),
		time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
}
