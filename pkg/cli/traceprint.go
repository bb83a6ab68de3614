package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Trace is what becomes of a packet.
type Trace struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Network  string `json:"network"`
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port,omitempty"`
	// Paths: one for each IP family that both ends have, and each endpoint.
	Paths []Path `json:"paths"`
}

// Path is one way that the packet may take.
type Path struct {
	From string `json:"from"`
	To   string `json:"to"`
	Port uint16 `json:"port,omitempty"`
	// Dialled is the address of the Service that led to To.
	Dialled string `json:"dialled,omitempty"`
	// Refused: the Service has no endpoints.
	Refused bool `json:"refused,omitempty"`
	// Outside: it leaves the Network.
	Outside bool   `json:"outside,omitempty"`
	Steps   []Step `json:"steps,omitempty"`
}

// Step is what is decided at one pod.
type Step struct {
	Pod       string `json:"pod"`
	Direction string `json:"direction"`
	// Verdict is allow or drop.
	Verdict string `json:"verdict"`
	By      string `json:"by"`
	// Policy and Rule are those of the row that decides; empty when it is none of Atoll's.
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule,omitempty"`
	// Also are further rules that decide the same.
	Also []string `json:"also,omitempty"`
	// Isolating are the policies that isolate the pod, one of which would have to allow the packet; Unknown says why they are
	// not known.
	Isolating []string `json:"isolating,omitempty"`
	Unknown   string   `json:"unknown,omitempty"`
}

// drop is where the packet ends; nil when it passes.
func (p Path) drop() *Step {
	if n := len(p.Steps); n > 0 && p.Steps[n-1].Verdict == verdictWord(false) {
		return &p.Steps[n-1]
	}
	return nil
}

// dropped counts the ways on which the packet does not pass.
func (t Trace) dropped() int {
	n := 0
	for _, p := range t.Paths {
		if p.Refused || p.drop() != nil {
			n++
		}
	}
	return n
}

// Verdict is the outcome in one line, with what to do next when a packet is dropped.
func (t Trace) Verdict() string {
	what := t.Protocol
	if t.Port != 0 {
		what += fmt.Sprintf(" to port %d", t.Port)
	}
	what += " in Network " + t.Network
	n := t.dropped()
	if n == 0 {
		line := "Allowed: " + what
		if slices.ContainsFunc(t.Paths, func(p Path) bool { return p.Outside }) {
			line += ". It leaves the Network, whose egress and infraAccess must permit it, too"
		}
		return line
	}
	line := "Dropped: " + what
	if n < len(t.Paths) {
		line += fmt.Sprintf(", on %d of %d ways", n, len(t.Paths))
	}
	return line + ". Next: " + t.next()
}

// next says what to look at: at the first way on which it is dropped.
func (t Trace) next() string {
	for _, p := range t.Paths {
		if p.Refused {
			return fmt.Sprintf("%s has no endpoints: are the pods of the Service ready, and do they attach to Network %s?", p.Dialled, t.Network)
		}
		s := p.drop()
		switch {
		case s == nil:
		case len(s.Isolating) > 0:
			return "one of the policies that isolate " + s.Pod + " must allow it: " + describeHint(s.Isolating[0])
		case s.Unknown != "":
			return "which policies isolate " + s.Pod + " is not known: " + s.Unknown
		case s.Policy != "":
			return describeHint(s.Policy)
		default:
			return "ovn-nbctl list ACL says whose it is"
		}
	}
	return ""
}

// Print writes the trace in a format: table or json.
func (t Trace) Print(out io.Writer, format string) error {
	if format == formatJSON {
		return printJSON(out, "trace", struct {
			Trace
			Verdict string `json:"verdict"`
		}{t, t.Verdict()})
	}
	var text strings.Builder
	t.printTable(&text)
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

func (t Trace) printTable(text *strings.Builder) {
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "FROM\tTO\tDIRECTION\tPOD\tVERDICT\tBY")
	for _, p := range t.Paths {
		to := p.To
		if p.Dialled != "" {
			to = p.Dialled + " at " + p.To
		}
		if p.Refused {
			fmt.Fprintf(table, "%s\t%s\t-\t-\trefuse\tthe Service has no endpoints\n", p.From, p.Dialled)
		}
		for _, s := range p.Steps {
			by := strings.Join(append([]string{s.By}, s.Also...), "; or ")
			if len(s.Isolating) > 0 {
				by += "; isolated by " + strings.Join(s.Isolating, ", ")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.From, to, s.Direction, printable(s.Pod), s.Verdict, printable(by))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	fmt.Fprintf(text, "\n%s\n", t.Verdict())
}
