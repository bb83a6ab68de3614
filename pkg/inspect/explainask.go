package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// QuestionError says why a question is not answered: it is who asks that has to ask something else.
type QuestionError struct{ Err error }

// Error implements error.
func (e *QuestionError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *QuestionError) Unwrap() error { return e.Err }

// MayAsk reports whether who asks may ask about pods of a namespace. Its error is that nobody knows. Nil: about all of them, and about what belongs to nobody.
type MayAsk func(namespace string) (bool, error)

// ParseQuestion reads a question as it is posted.
func ParseQuestion(spec api.ExplanationSpec) (Question, error) {
	q := Question{Protocol: model.Protocol(spec.Protocol), Port: spec.Port, Network: spec.Network}
	var err error
	if q.From, err = ParsePlace(spec.From); err != nil {
		return q, err
	}
	if q.To, err = ParsePlace(spec.To); err != nil {
		return q, err
	}
	return q, q.Check()
}

// Explain answers a question. Who may not ask about everything is told what Sight lets him see.
func (i Inquirer) Explain(ctx context.Context, spec api.ExplanationSpec, may MayAsk) (out api.ExplanationStatus, err error) {
	err = i.asked(ctx, spec, may, func(e *explainer, limits *sight) error {
		answer, err := e.answer()
		if err != nil {
			return err
		}
		if e.unasked != nil {
			answer.Sources += ": " + e.unasked.Error()
		}
		if limits != nil {
			answer = limits.explanation(answer)
		}
		out = statusOf(answer)
		if spec.Raw {
			out.Raw = e.raw()
		}
		return nil
	})
	return out, err
}

// asked has somebody answer a question by the rows as they are. Who may not ask about everything is told of a problem what he may be.
func (i Inquirer) asked(ctx context.Context, spec api.ExplanationSpec, may MayAsk, answer func(*explainer, *sight) error) error {
	q, err := ParseQuestion(spec)
	if err != nil {
		return &QuestionError{err}
	}
	if i.Mirror == nil || i.Settings == nil {
		return ErrNotRead
	}
	held, err := i.Held()
	if err != nil {
		return err
	}
	settings, err := i.Settings()
	if err != nil {
		return err
	}
	var limits *sight
	if may != nil {
		if limits, err = look(held, q, may); err != nil {
			return err
		}
	}
	bindings, unasked := i.bindings(ctx)
	late := i.lagging(ctx)
	return i.Mirror.use(ctx, func(rows northbound) error {
		objects := held.Objects
		if limits != nil {
			objects = limits.cut(objects)
		}
		world := makeWorld(rows, objects, settings, bindings)
		world.whole, world.lagging, world.lately = held.Objects, late, i.Mirror.lately
		world.told = toldBy(ctx, i.Client)
		world.table.Bound(func(int) error { return context.Cause(ctx) })
		err := answer(&explainer{World: world, q: q, unasked: unasked}, limits)
		switch {
		case err != nil && limits != nil:
			return &QuestionError{limits.problem(err)}
		case err != nil:
			return &QuestionError{err}
		}
		return nil
	})
}

// bindings are those of the southbound database; nil, with the reason, when it does not answer: then nobody knows whether ports are up.
func (i Inquirer) bindings(ctx context.Context) (map[string]ovn.Binding, error) {
	if i.Southbound == nil {
		return nil, errors.New("nobody knows where it is")
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	return readAllBindings(ctx, i.Southbound)
}

// readAllBindings are the bindings of all ordinary ports, by their names.
func readAllBindings(ctx context.Context, southbound Selector) (map[string]ovn.Binding, error) {
	found, err := southbound.Select(ctx,
		ovn.SelectRows(tableChassis, []string{"_uuid", "name", "hostname"}),
		ovn.SelectRows(tableBinding, []string{"logical_port", "chassis", "up"}, ovn.Equal("type", "")))
	if err != nil {
		return nil, err
	}
	chassis := make(map[string]ovsdb.Row, len(found[0]))
	for _, row := range found[0] {
		chassis[ovn.Text(row, "_uuid")] = row
	}
	out := make(map[string]ovn.Binding, len(found[1]))
	for _, row := range found[1] {
		on := chassis[ovn.Text(row, "chassis")]
		out[ovn.Text(row, "logical_port")] = ovn.Binding{Chassis: ovn.Text(on, "name"), Hostname: ovn.Text(on, "hostname"), Up: ovn.Is(row, "up")}
	}
	return out, nil
}

// raw are the rows of whom the ways have met, each as its table, its name and its columns.
func (e *explainer) raw() (out []string) {
	for _, table := range nb.Tables() {
		for _, row := range e.rows.Rows(table.Table) {
			owner, known := nb.ParseOwner(row.Owned()[nb.KeyOwner])
			if known && e.concerns(owner) {
				out = append(out, fmt.Sprintf("%s: %+v", describe(row), row))
			}
		}
	}
	slices.Sort(out)
	return out
}

// statusOf is an explanation as the API has it.
func statusOf(e Explanation) api.ExplanationStatus {
	out := api.ExplanationStatus{Reached: e.Reached, Verdict: e.Verdict(), Changing: e.Changing, Sources: e.Sources, Ways: []api.ExplanationWay{}}
	steps := func(hops []Hop) (out []api.ExplanationStep) {
		for _, h := range hops {
			out = append(out, api.ExplanationStep{Layer: string(h.Layer), Node: h.Node, Network: h.Network, OK: h.OK, What: h.What, Next: h.Next})
		}
		return out
	}
	for _, w := range e.Ways {
		out.Ways = append(out.Ways, api.ExplanationWay{Dialled: w.Dialled, To: w.To, SeenAs: w.SeenAs, Reached: w.Reached, There: steps(w.There), Back: steps(w.Back)})
	}
	for _, d := range e.Drift {
		out.Drift = append(out.Drift, api.ExplanationDrift{Owner: d.Owner.String(), Kind: string(d.Kind), Object: d.Object, Column: d.Column, Want: d.Want, Have: d.Have})
	}
	return out
}

// explanationOf is what the API has told.
func explanationOf(spec api.ExplanationSpec, s api.ExplanationStatus) Explanation {
	out := Explanation{From: spec.From, To: spec.To, Protocol: spec.Protocol, Port: spec.Port, Reached: s.Reached, Changing: s.Changing, Sources: s.Sources, Raw: s.Raw, Sent: s.Sent, Unsent: s.Unsent}
	hops := func(steps []api.ExplanationStep) (out []Hop) {
		for _, h := range steps {
			out = append(out, Hop{Layer: Layer(h.Layer), Node: h.Node, Network: h.Network, OK: h.OK, What: h.What, Next: h.Next})
		}
		return out
	}
	for _, w := range s.Ways {
		out.Ways = append(out.Ways, Way{Dialled: w.Dialled, To: w.To, SeenAs: w.SeenAs, Reached: w.Reached, There: hops(w.There), Back: hops(w.Back)})
	}
	for _, d := range s.Drift {
		owner, _ := nb.ParseOwner(d.Owner)
		out.Drift = append(out.Drift, Difference{Owner: owner, Place: PlaceNorthbound, Kind: Kind(d.Kind), Object: d.Object, Column: d.Column, Want: d.Want, Have: d.Have})
	}
	return out
}
