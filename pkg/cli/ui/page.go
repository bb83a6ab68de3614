package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

//go:embed templates/*.html
var templateFiles embed.FS

// view is what a page shows beside the map.
type view struct {
	// Template shows Data. Title is its heading, and Said what a screen reader says of it.
	Template, Title, Said string
	// Note says what the answer is without.
	Note string
	Data any
	// Open are Networks that the map shows from inside.
	Open []string
	// Ends is when the flows were that it shows; empty: now.
	Ends string
	// Asked is the question that the form has.
	Asked questionForm
	// Query is what was searched for.
	Query string
	// status is HTTP's.
	status int
}

// document is a whole page.
type document struct {
	view
	Map mapView
}

// templates are read when they are first used, so that the other commands start without them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"text": snapshot.Printable, "join": strings.Join, "count": func(n int64, one string) string { return model.Count(int(n), one) },
		"tenant": topology.TenantWords, "arrow": topology.Arrow, "peerWords": topology.PeerWords, "offer": topology.OfferWords,
		"podsOf": topology.PodsOf,
		"yes": func(b bool) string {
			if b {
				return "yes"
			}
			return "no"
		},
		"add": func(a, b int) int { return a + b }, "int64": func(n int) int64 { return int64(n) }, "size": sizeOf, "large": large,
		"lower": strings.ToLower, "path": pathOf, "explainURL": explainURL, "peerURL": peerURL, "mark": mark, "state": stateClass,
		"verdict": func(v string) string {
			if passed(v) {
				return "good"
			}
			return "bad"
		},
		"flowEnd": flows.EndWords, "flowPort": flows.PortWords, "flowsURL": func(network string) string { return flowsURL("", network) },
	}).ParseFS(templateFiles, "templates/*.html"))
})

// quietly is the header of a request that nobody made by hand: what comes again is not said again.
const quietly = "Atoll-Quietly"

// page serves a view: alone to htmx, which puts it beside the map, and with everything to who follows a link.
func (s *Server) page(show func(context.Context, *http.Request) (view, error)) http.HandlerFunc {
	return s.bounded(func(w http.ResponseWriter, r *http.Request) {
		v, err := show(r.Context(), r)
		if err != nil {
			v = problem(v, err)
		}
		if r.Header.Get(quietly) != "" {
			v.Said = ""
		}
		name, data := "fragment", any(v)
		if r.Header.Get("HX-Request") == "" || r.Header.Get("HX-History-Restore-Request") != "" {
			name, data = "document", document{view: v, Map: s.mapOf(r.Context(), v.Open)}
		}
		w.Header().Set("Vary", "HX-Request")
		render(w, name, v.status, data)
	})
}

// render writes a template, or that it cannot be.
func render(w http.ResponseWriter, name string, status int, data any) {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, name, data); err != nil {
		http.Error(w, fmt.Sprintf("make the page: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, shown(out.String())) // who has gone does not read it
}

// shown is a text without signs that nobody sees, but for the ends of lines.
func shown(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = snapshot.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// problemData is why there is no answer, and what Kubernetes tells in its place.
type problemData struct {
	Why  string
	Seen []api.Pod
}

// questionError is that of a question that nobody can be asked.
type questionError struct{ error }

// problem shows why there is no answer, in the words of the command line.
func problem(v view, err error) view {
	v.Template, v.status = "problem", http.StatusBadGateway
	data := problemData{Why: err.Error()}
	if unexplained, is := errors.AsType[*client.UnexplainedError](err); is {
		data.Seen = unexplained.Seen
	}
	_, bad := errors.AsType[questionError](err)
	switch {
	case bad, apierrors.IsBadRequest(err):
		v.status = http.StatusBadRequest
	case isAbsent(err):
		v.status = http.StatusNotFound
	case apierrors.IsConflict(err):
		v.status = http.StatusConflict
	case apierrors.IsForbidden(err):
		v.status = http.StatusForbidden
	case errors.Is(err, context.DeadlineExceeded):
		v.status = http.StatusGatewayTimeout
		data.Why = "it took too long (--timeout): " + data.Why
	}
	if v.Title == "" {
		v.Title = "No answer"
	}
	v.Data, v.Said = data, v.Title+": "+data.Why
	return v
}

// sizeOf counts what a list has.
func sizeOf(list any) int64 { return int64(reflect.ValueOf(list).Len()) }

// large is a count that may have been cut, as `atoll ipam` prints it.
func large(n int64) string {
	const most = 1<<53 - 1
	if n >= most {
		return "2^53 or more"
	}
	return fmt.Sprint(n)
}
