package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
)

const (
	// maxWindows bounds the windows in memory. A window that ends now is read again after freshFor. One that ended earlier is read
	// again after heldFor: names may have changed.
	maxWindows        = 3
	freshFor, heldFor = 3 * time.Second, time.Minute
	// maxLines bounds the lines between Networks in a table, maxFlows the flows.
	maxLines, maxFlows = 200, 500
)

// seen are the flows of a window.
type seen struct {
	window
	flows  []api.Flow
	status api.FlowStatus
	asked  time.Time
	// namespaces are set when the user may see no Network: the flows are those of pods in these namespaces. more counts the
	// namespaces that were not asked about.
	namespaces []string
	more       int
}

// flowMemory caches a few windows, so that the map and the table show the same answer. It asks one question at a time.
type flowMemory struct {
	// turn is a lock for held.
	turn chan struct{}
	held []seen
}

func newFlowMemory() *flowMemory { return &flowMemory{turn: make(chan struct{}, 1)} }

// flowsIn returns the flows of a window that the user may see.
func (s *Server) flowsIn(ctx context.Context, w window) (seen, error) {
	m := s.flows
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return seen{}, context.Cause(ctx)
	}
	now := s.now()
	m.held = slices.DeleteFunc(m.held, func(h seen) bool {
		age := now.Sub(h.asked)
		return age > heldFor || h.Live && age > freshFor
	})
	for _, h := range m.held {
		if h.Live == w.Live && h.Begins.Equal(w.Begins) && (w.Live || h.Ends.Equal(w.Ends)) {
			h.Ago = w.Ago
			return h, nil
		}
	}
	out := seen{window: w, asked: now}
	status, err := s.config.Source.Flows(ctx, client.FlowScope{}, w.question(now), func(f api.Flow) error {
		if w.has(f.Minute.Time) {
			out.flows = append(out.flows, f)
		}
		return nil
	}, func(api.SilentNode) {})
	// A user without a Network may still view namespaces. For such a user the API forbids flows, or answers that there is no Network
	// whose flows the user may see.
	if apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		own, problem := s.byNamespace(ctx, w, w.question(now))
		switch {
		case problem != nil:
			return out, whyNoFlows(problem)
		case len(own.namespaces) > 0:
			out.flows, status, err = own.flows, own.status, nil
			out.namespaces, out.more = own.namespaces, own.more
		}
	}
	if err != nil {
		return out, whyNoFlows(err)
	}
	if err := flows.Unknown(status, len(out.flows)); err != nil {
		return out, whyNoFlows(err)
	}
	out.flows, out.status = flows.Together(out.flows), status
	m.held = append(m.held[max(0, len(m.held)+1-maxWindows):], out)
	return out, nil
}

// whyNoFlows wraps an error of the API. If the user may not see flows here, it adds the commands that may work.
func whyNoFlows(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("flows: you may not see any here: %w. Next: atoll flows NETWORK, or atoll flows -n NAMESPACE, has those of one that "+
			"is yours; atoll ui -n NAMESPACE shows those of its pods here", err)
	}
	return fmt.Errorf("flows: %w", err)
}

// flowRow is a flow in a table.
type flowRow struct {
	api.Flow
	Rate, Time string
	// Ask is the address of the page that explains the flow's way. It is empty when no question can be asked.
	Ask string
}

// lineRow is the traffic between two Networks.
type lineRow struct {
	*stroke
	Rate, Link string
}

// flowsData are the flows of a window.
type flowsData struct {
	Words, Network string
	// Earlier, Later and Now are the addresses of other windows' pages. An empty one does not exist.
	Earlier, Later, Now string
	Lines               []lineRow
	Flows               []flowRow
	MoreLines           int
	MoreFlows           int
}

// flowsPage shows the table of `atoll flows -o wide` for a window, and the traffic between Networks.
func (s *Server) flowsPage(ctx context.Context, r *http.Request) (view, error) {
	q := r.URL.Query()
	v := view{Template: "flows", Title: "Flows"}
	w, err := windowAt(q, s.now())
	if err != nil {
		return v, err
	}
	v.Ends = w.at()
	data := flowsData{Words: w.words(s.zone), Network: q.Get("network")}
	if data.Network != "" {
		v.Title = "Flows of Network " + data.Network
	}
	all, err := s.flowsIn(ctx, w)
	if err != nil {
		return v, err
	}
	flows := all.flows
	if data.Network != "" {
		flows = slices.DeleteFunc(slices.Clone(flows), func(f api.Flow) bool {
			from, to := partiesOf(f)
			return f.Network != data.Network && from.Network != data.Network && to.Network != data.Network
		})
	}
	data.Now = flowsURL("", data.Network)
	if w.Ago < oldest {
		data.Earlier = flowsURL(w.before(), data.Network)
	}
	if !w.Live {
		data.Later = flowsURL(w.Ends.Add(span).UTC().Format(time.RFC3339), data.Network)
	}
	strokes := strokesOf(talksOf(flows), networkOf)
	for _, line := range strokes[:min(len(strokes), maxLines)] {
		data.Lines = append(data.Lines, lineRow{line, w.rate(line.Connections), line.url(all.at())})
	}
	data.MoreLines = len(strokes) - len(data.Lines)
	data.Flows, data.MoreFlows = s.rows(all.window, flows)
	v.Data, v.Note, v.Said = data, all.missing(), saidOf(data.Words, strokes)
	return v, nil
}

// before returns the window that ends where this one begins.
func (w window) before() string { return w.Begins.UTC().Format(time.RFC3339) }

// rows returns the rows of a table of flows: dropped flows first, then those with the most connections.
func (s *Server) rows(w window, flows []api.Flow) (rows []flowRow, more int) {
	flows = slices.Clone(flows)
	slices.SortStableFunc(flows, func(a, b api.Flow) int {
		if d := rank(passed(a.Verdict)) - rank(passed(b.Verdict)); d != 0 {
			return d
		}
		switch {
		case a.Connections > b.Connections:
			return -1
		case a.Connections < b.Connections:
			return 1
		}
		return 0
	})
	for _, f := range flows[:min(len(flows), maxFlows)] {
		row := flowRow{Flow: f, Rate: w.rate(f.Connections), Time: f.Last.In(s.zone).Format(time.TimeOnly)}
		if q := talksOf([]api.Flow{f})[0].question(); q.From != "" {
			row.Ask = q.url()
		}
		rows = append(rows, row)
	}
	return rows, len(flows) - len(rows)
}

// saidOf returns the text about a window for screen readers.
func saidOf(words string, strokes []*stroke) string {
	var allowed, dropped uint64
	for _, s := range strokes {
		if s.Dropped {
			dropped += s.Connections
		} else {
			allowed += s.Connections
		}
	}
	return fmt.Sprintf("%s: %s allowed, %d dropped", words, model.Count(int(min(allowed, 1<<53)), "connection"), dropped)
}

// networkOf says where an end is, of Networks and of what is in none.
func networkOf(p party) string {
	if p.Network != "" {
		return "Network " + p.Network
	}
	return beyond(p)
}

// The ends that are in no Network that is known.
const (
	endOutside  = "outside"
	endServices = "Services"
	endNodes    = "nodes"
	endOthers   = "others"
)

// beyond names an end that is in no known Network.
func beyond(p party) string {
	switch p.Kind {
	case api.FlowOutside:
		return endOutside
	case api.FlowService:
		return endServices
	case api.FlowNode:
		return endNodes
	}
	return endOthers
}

// maxNamed bounds the Networks at each end of a line.
const maxNamed = 32

// url is the page of a line of the map: its flows, and the way of the first explained.
func (s *stroke) url(at string) string {
	q := url.Values{"verdict": {s.Verdict()}}
	if at != "" {
		q.Set("at", at)
	}
	for _, t := range s.Talks {
		for key, p := range map[string]party{"from": t.From, "to": t.To} {
			word := networkOf(p)
			if where := map[string]string{"from": s.From, "to": s.To}[key]; strings.Contains(where, podPlace) && p.Kind == api.FlowPod {
				word = "pod " + p.Name
			}
			if len(q[key]) < maxNamed && !slices.Contains(q[key], word) {
				q.Add(key, word)
			}
		}
	}
	return "/line?" + q.Encode()
}

// isOne reports whether an end is among those in a page's address.
func (p party) isOne(words []string) bool {
	return slices.Contains(words, networkOf(p)) || p.Kind == api.FlowPod && slices.Contains(words, "pod "+p.Name)
}

// lineData is a line of the map.
type lineData struct {
	Words, Verdict string
	Flows          []flowRow
	MoreFlows      int
	// Way explains the way of the first flow, as it is now. Why says why there is no explanation.
	Way *explain.Explanation
	Why string
}

// line shows a line of the map: its flows, and an explanation of the flow with the most connections.
func (s *Server) line(ctx context.Context, r *http.Request) (view, error) {
	q := r.URL.Query()
	v := view{Template: "line", Title: "A line of the map"}
	from, to, verdict := q["from"], q["to"], q.Get("verdict")
	if verdict != (&stroke{}).Verdict() && verdict != (&stroke{Dropped: true}).Verdict() || len(from) == 0 || len(to) == 0 ||
		len(from)+len(to) > 2*maxNamed {
		return v, questionError{errors.New("name both ends of a line, and its verdict")}
	}
	v.Title = fmt.Sprintf("From %s to %s, %s", several(from), several(to), verdict)
	w, err := windowAt(q, s.now())
	if err != nil {
		return v, err
	}
	all, err := s.flowsIn(ctx, w)
	if err != nil {
		return v, err
	}
	v.Ends = w.at()
	data := lineData{Words: w.words(s.zone), Verdict: verdict}
	dropped := verdict == (&stroke{Dropped: true}).Verdict()
	flows := slices.DeleteFunc(slices.Clone(all.flows), func(f api.Flow) bool {
		a, b := partiesOf(f)
		return !a.isOne(from) || !b.isOne(to) || passed(f.Verdict) == dropped
	})
	data.Flows, data.MoreFlows = s.rows(w, flows)
	v.Note, v.Said = all.missing(), v.Title+", "+data.Words+": "+model.Count(len(flows), "flow")
	data.Why = "Nobody can be asked how these go: of no flow both ends are known."
	for _, row := range data.Flows {
		if row.Ask == "" {
			continue
		}
		v.Asked = talksOf([]api.Flow{row.Flow})[0].question()
		data.Why = s.way(ctx, v.Asked, &data)
		if data.Way != nil {
			v.Said += ". " + data.Way.Verdict()
		}
		break
	}
	v.Data = data
	return v, nil
}

// way asks for an explanation of the first flow. Its result says why there is none.
func (s *Server) way(ctx context.Context, q questionForm, to *lineData) string {
	spec, err := q.spec()
	if err == nil {
		var e explain.Explanation
		if e, err = s.config.Source.Explain(ctx, spec); err == nil {
			to.Way = &e
			return ""
		}
	}
	return fmt.Sprintf("explain: %v", err)
}

// several names one of some.
func several(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return fmt.Sprintf("%s and %d more", words[0], len(words)-1)
}
