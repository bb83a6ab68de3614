package explain

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/question"
)

// Explanation is the whole way of a connection's first packet and of the answer, in words.
type Explanation struct {
	// From and To are the ends as they were asked for.
	From string `json:"from"`
	To   string `json:"to"`
	// Protocol is tcp, udp, sctp or icmp.
	Protocol string `json:"protocol"`
	// Port is the one that was asked for; 0 for icmp.
	Port uint16 `json:"port,omitempty"`
	// Reached: the packet gets there, on every way that it may take.
	Reached bool `json:"reached"`
	// Ways: one for each address that is dialled, and each endpoint that it may lead to.
	Ways []Way `json:"ways"`
	// Sources says what was read, and what was not.
	Sources string `json:"sources"`
	// Drift are differences between the rows and what the cluster's objects ask for, as far as they concern the ends.
	Drift []drift.Difference `json:"drift,omitempty"`
	// Changing says why the answer may be another one in a moment: what it rests on has just changed, or is not everywhere yet.
	// Empty: nothing is known to.
	Changing []string `json:"changing,omitempty"`
	// Raw are the rows underneath, each as text, where they were asked for.
	Raw []string `json:"raw,omitempty"`
	// Sent are the packets that were sent, where that was asked for; Unsent says why there is none.
	Sent   []api.ExplanationSent `json:"sent,omitempty"`
	Unsent string                `json:"unsent,omitempty"`
}

// Way is one way that the packet may take.
type Way struct {
	// Dialled is the address, and the port if there is one, that the sender dials.
	Dialled string `json:"dialled,omitempty"`
	// To is whom it comes to, in words: a pod, a node, outside. Empty when it is stopped before that is known.
	To string `json:"to,omitempty"`
	// SeenAs is the address that the other end sees as its client. Empty when it is stopped, or not known.
	SeenAs string `json:"seenAs,omitempty"`
	// Reached: it gets there.
	Reached bool `json:"reached"`
	// There are the steps of the packet in their order, Back those of the answer. The last of There has stopped it, unless it is reached.
	There []Hop `json:"there"`
	Back  []Hop `json:"back,omitempty"`
	// end is the pod that it comes to; empty when it is stopped, or comes to none.
	end model.PodKey
}

// Layer is the part of the system that a step of a way is in.
type Layer string

// The layers.
const (
	LayerPod      Layer = "pod"
	LayerName     Layer = "name"
	LayerBalancer Layer = "load balancer"
	LayerPolicy   Layer = "policy"
	LayerSwitch   Layer = "switch"
	LayerRouter   Layer = "router"
	LayerPeering  Layer = "compatibility"
	LayerPorthole Layer = "porthole"
	LayerNode     Layer = "node"
	LayerOutside  Layer = "outside"
)

// Hop is one step of a way.
type Hop struct {
	Layer Layer `json:"layer"`
	// Node and Network are where it is; empty when it is not in one.
	Node    string `json:"node,omitempty"`
	Network string `json:"network,omitempty"`
	// OK: it goes on, or has arrived.
	OK bool `json:"ok"`
	// What happens, in words.
	What string `json:"what"`
	// Next is what to do where it is stopped.
	Next string `json:"next,omitempty"`
}

func (w *Way) ok(layer Layer, node, network, what string, args ...any) {
	w.There = append(w.There, Hop{Layer: layer, Node: node, Network: network, OK: true, What: fmt.Sprintf(what, args...)})
}

func (w *Way) stop(h Hop) { w.There = append(w.There, h) }

// stopped reports whether the way has ended before its end.
func (w *Way) stopped() bool { return len(w.There) > 0 && !w.There[len(w.There)-1].OK }

// arrive ends a way at somebody who sees a client.
func (w *Way) arrive(to, seen string) { w.To, w.SeenAs, w.Reached = to, seen, true }

// Stopped counts the ways that are stopped.
func (e Explanation) Stopped() int {
	n := 0
	for _, w := range e.Ways {
		if !w.Reached {
			n++
		}
	}
	return n
}

// First is the first thing that stops the packet; nil when nothing does.
func (e Explanation) First() *Hop {
	for _, w := range e.Ways {
		if w.stopped() {
			return &w.There[len(w.There)-1]
		}
	}
	return nil
}

// Verdict is the outcome in one line, with the first thing that stops it and what to do.
func (e Explanation) Verdict() string {
	what := e.Protocol
	if e.Port != 0 {
		what += fmt.Sprintf(" port %d", e.Port)
	}
	if e.Reached {
		line := fmt.Sprintf("Reached: %s to %s, %s", e.From, e.To, what)
		if seen := e.seen(); len(seen) > 0 {
			line += ". It is seen as " + strings.Join(seen, " or ")
		}
		return line
	}
	line := fmt.Sprintf("Stopped: %s to %s, %s", e.From, e.To, what)
	if n := e.Stopped(); n < len(e.Ways) {
		line += fmt.Sprintf(", on %d of %s", n, model.Count(len(e.Ways), "way"))
	}
	if h := e.First(); h != nil {
		line += fmt.Sprintf(", by %s: %s", h.Layer, h.What)
		if h.Next != "" {
			line += ". Next: " + h.Next
		}
	}
	return line
}

// seen are the addresses that the other end sees, each once.
func (e Explanation) seen() (out []string) {
	for _, w := range e.Ways {
		if w.SeenAs != "" && !slices.Contains(out, w.SeenAs) {
			out = append(out, w.SeenAs)
		}
	}
	return out
}

// Explain follows a connection's first packet and its answer the whole way. Its error is that the question cannot be answered, and why.
func Explain(w *World, q question.Question) (Explanation, error) {
	if err := q.Check(); err != nil {
		return Explanation{}, err
	}
	return (&explainer{World: w, q: q}).answer()
}

// Raw are the rows underneath an explanation.
func Raw(w *World, q question.Question) (Explanation, error) {
	if err := q.Check(); err != nil {
		return Explanation{}, err
	}
	e := &explainer{World: w, q: q}
	out, err := e.answer()
	if err == nil {
		out.Raw = e.raw()
	}
	return out, err
}

func (e *explainer) answer() (Explanation, error) {
	out := Explanation{From: e.q.From.String(), To: e.q.To.String(), Protocol: string(e.q.Protocol), Port: e.q.Port, Sources: e.sources()}
	ways, err := e.explain()
	if err != nil {
		return out, err
	}
	out.Ways, out.Reached = ways, !slices.ContainsFunc(ways, func(w Way) bool { return !w.Reached })
	moved := e.moved()
	out.Drift = e.drift()
	out.Changing = e.changing(out, moved)
	return out, nil
}
