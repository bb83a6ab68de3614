package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// ErrContradicted is the error of an explanation whose packet went another way than it says; both have been printed.
var ErrContradicted = errors.New("the packet did not go as explained")

// errUnproved is the error of an explanation whose packet was not seen enough of, which has been printed.
var errUnproved = errors.New("explain --send: whether the packet went as explained cannot be told: above it says why")

// sentError is how a command ends whose explanation was to be proved by a packet; nil where nothing is to be said beyond whether it is reached.
func sentError(e explain.Explanation, asked bool) error {
	if !asked {
		return nil
	}
	has := func(verdict string) bool {
		return slices.ContainsFunc(e.Sent, func(s api.ExplanationSent) bool { return s.Verdict == verdict })
	}
	switch {
	case e.Unsent != "":
		return nil
	case len(e.Sent) == 0:
		return errors.New("explain --send: nothing was sent: the API inspect.atoll.dev does not know --send, and is older than this program")
	case has(api.SentDiffers):
		return ErrContradicted
	case has(api.SentUnknown):
		return errUnproved
	}
	return nil
}

// sentTable writes what became of the packets that were sent.
func sentTable(text *strings.Builder, e explain.Explanation) {
	if e.Unsent != "" {
		fmt.Fprintf(text, "\nSent: nothing. %s\n", snapshot.Printable(strings.TrimPrefix(e.Unsent, "nothing is sent: ")))
	}
	for _, s := range e.Sent {
		fmt.Fprintf(text, "\nSent: a marked packet to %s: %s\n", snapshot.Printable(s.Dialled), strings.ToUpper(s.Verdict))
		table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
		if len(s.There)+len(s.Back) > 0 {
			fmt.Fprintln(table, "\tAFTER\tNODE\tFROM\tTO\tSEEN")
		}
		pointLines(table, "there", s.There)
		pointLines(table, "back", s.Back)
		_ = table.Flush() // a strings.Builder takes everything
		if s.Hidden {
			fmt.Fprintln(text, "Where it was beyond what is yours, is not told.")
		}
		for _, u := range s.Unobserved {
			fmt.Fprintf(text, "Not observable: %s\n", snapshot.Printable(u))
		}
		if slices.ContainsFunc(slices.Concat(s.There, s.Back), func(p api.ExplanationPoint) bool { return p.OwnClock }) {
			fmt.Fprintln(text, "* by that node's own clock: the answer was not seen there, so that it cannot be compared with the sender's.")
		}
		answer := s.Why
		if s.Answered {
			answer = "answered after " + milliseconds(s.Took.Duration) + " ms"
		}
		fmt.Fprintf(text, "%s. %s\n", snapshot.Printable(sentence(s.What)), snapshot.Printable(sentence(answer)))
	}
}

func pointLines(table *tabwriter.Writer, way string, points []api.ExplanationPoint) {
	for _, p := range points {
		after, what := fmt.Sprintf("%d µs", p.Microseconds), p.Where
		if p.OwnClock {
			after += " *"
		}
		if p.Refusal {
			what += "; it refuses"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", way, after, cell(p.Node), cell(p.From), cell(p.To), snapshot.Printable(what))
	}
}

// sentence has a text begin with a capital.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
