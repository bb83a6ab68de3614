package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Answer answers a question. An asker who may not ask about everything gets an answer without other tenants' objects, as
// visibility.Limits allows.
func Answer(ctx context.Context, s snapshot.Sources, spec api.ExplanationSpec, may question.MayAsk) (out api.ExplanationStatus, err error) {
	err = asked(ctx, s, spec, may, func(e *explainer, limits *visibility.Limits) error {
		answer, err := e.answer()
		if err != nil {
			return err
		}
		if e.unasked != nil {
			answer.Sources += ": " + e.unasked.Error()
		}
		if limits != nil {
			answer = toldBySight(limits, answer)
		}
		out = statusOf(answer)
		if spec.Raw {
			out.Raw = e.raw()
		}
		return nil
	})
	return out, err
}

// asked calls answer with the current rows. If the asker may not ask about everything, errors are reduced to what the asker may see.
func asked(
	ctx context.Context, s snapshot.Sources, spec api.ExplanationSpec, may question.MayAsk, answer func(*explainer, *visibility.Limits) error,
) error {
	q, err := question.ParseQuestion(spec)
	if err != nil {
		return &question.Error{Err: err}
	}
	if s.Mirror == nil || s.Settings == nil {
		return question.ErrNotRead
	}
	held, err := s.Held()
	if err != nil {
		return err
	}
	settings, err := s.Settings()
	if err != nil {
		return err
	}
	var limits *visibility.Limits
	if may != nil {
		if limits, err = visibility.Of(held, q, may); err != nil {
			return err
		}
	}
	bindings, unasked := bindingsOf(ctx, s)
	late := laggingOf(ctx, s)
	return s.Mirror.Use(ctx, func(rows snapshot.Northbound) error {
		objects := held.Objects
		if limits != nil {
			objects = limits.Cut(objects)
		}
		world := makeWorld(rows, objects, settings, bindings)
		world.whole, world.lagging, world.lately = held.Objects, late, s.Mirror.Lately
		world.told = toldBy(ctx, s.Client)
		world.table.Bound(func(int) error { return context.Cause(ctx) })
		err := answer(&explainer{World: world, q: q, unasked: unasked}, limits)
		switch {
		case err != nil && limits != nil:
			return &question.Error{Err: limits.Problem(err)}
		case err != nil:
			return &question.Error{Err: err}
		}
		return nil
	})
}

// bindingsOf returns the port bindings of the southbound database. If the database does not answer, they are nil, and the error says
// why; then it is unknown whether ports are up.
func bindingsOf(ctx context.Context, s snapshot.Sources) (map[string]ovn.Binding, error) {
	if s.Southbound == nil {
		return nil, errors.New("nobody knows where it is")
	}
	ctx, cancel := context.WithTimeout(ctx, snapshot.DatabaseTime)
	defer cancel()
	return snapshot.Bindings(ctx, s.Southbound)
}

// raw returns the rows of the objects on the explained ways, each with its table, its name and its columns.
func (e *explainer) raw() (out []string) {
	for _, table := range nb.Tables() {
		for _, row := range e.rows.Rows(table.Table) {
			owner, known := nb.ParseOwner(row.Owned()[nb.KeyOwner])
			if known && e.concerns(owner) {
				out = append(out, fmt.Sprintf("%s: %+v", drift.Describe(row), row))
			}
		}
	}
	slices.Sort(out)
	return out
}

// statusOf converts an explanation to its API type.
func statusOf(e Explanation) api.ExplanationStatus {
	out := api.ExplanationStatus{
		Reached: e.Reached, Verdict: e.Verdict(), Changing: e.Changing, Sources: e.Sources, Ways: []api.ExplanationWay{},
	}
	steps := func(hops []Hop) (out []api.ExplanationStep) {
		for _, h := range hops {
			out = append(out, api.ExplanationStep{Layer: string(h.Layer), Node: h.Node, Network: h.Network, OK: h.OK, What: h.What, Next: h.Next})
		}
		return out
	}
	for _, w := range e.Ways {
		out.Ways = append(out.Ways, api.ExplanationWay{
			Dialled: w.Dialled, To: w.To, SeenAs: w.SeenAs, Reached: w.Reached, There: steps(w.There), Back: steps(w.Back),
		})
	}
	for _, d := range e.Drift {
		out.Drift = append(out.Drift, api.ExplanationDrift{
			Owner: d.Owner.String(), Kind: string(d.Kind), Object: d.Object, Column: d.Column, Want: d.Want, Have: d.Have,
		})
	}
	return out
}

// FromAPI converts an explanation from its API type.
func FromAPI(spec api.ExplanationSpec, s api.ExplanationStatus) Explanation {
	out := Explanation{
		From: spec.From, To: spec.To, Protocol: spec.Protocol, Port: spec.Port, Reached: s.Reached, Changing: s.Changing, Sources: s.Sources,
		Raw: s.Raw, Sent: s.Sent, Unsent: s.Unsent,
	}
	hops := func(steps []api.ExplanationStep) (out []Hop) {
		for _, h := range steps {
			out = append(out, Hop{Layer: Layer(h.Layer), Node: h.Node, Network: h.Network, OK: h.OK, What: h.What, Next: h.Next})
		}
		return out
	}
	for _, w := range s.Ways {
		out.Ways = append(out.Ways, Way{
			Dialled: w.Dialled, To: w.To, SeenAs: w.SeenAs, Reached: w.Reached, There: hops(w.There), Back: hops(w.Back),
		})
	}
	for _, d := range s.Drift {
		owner, _ := nb.ParseOwner(d.Owner)
		out.Drift = append(out.Drift, drift.Difference{
			Owner: owner, Place: drift.PlaceNorthbound, Kind: drift.Kind(d.Kind), Object: d.Object, Column: d.Column, Want: d.Want, Have: d.Have,
		})
	}
	return out
}
