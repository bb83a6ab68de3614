package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// Kinds of owners.
const (
	ofNetworks = "Network"
	ofNodes    = "Node"
)

// owned are the rows of the database by the kind of their owner: Network, Node, Pod or Service.
type owned map[string]map[nb.Ref]nb.Row

// readOwned reads the rows of the tables that the controller writes.
func (s *scale) readOwned(ctx context.Context) (owned, error) {
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: []string{s.Database.NBAddress()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	defer session.Close()
	out := owned{}
	for _, t := range nb.Tables() {
		for _, row := range session.Rows(t.Table) {
			kind, _, _ := strings.Cut(row.Owned()[nb.KeyOwner], "/")
			if out[kind] == nil {
				out[kind] = map[nb.Ref]nb.Row{}
			}
			out[kind][nb.RefOf(row)] = row
		}
	}
	return out, nil
}

func (o owned) count() int {
	n := 0
	for _, rows := range o {
		n += len(rows)
	}
	return n
}

// networks are the Networks that rows of a kind are in.
func (o owned) networks(kind string) map[string]bool {
	out := map[string]bool{}
	for _, row := range o[kind] {
		out[row.Owned()[nb.KeyNetwork]] = true
	}
	return out
}

// changed counts the rows of a kind that came, went or differ between o and now. What is in their sets is not looked at:
// there are the pods.
func (o owned) changed(now owned, kind string) int {
	n := 0
	for ref, row := range now[kind] {
		if had, there := o[kind][ref]; !there || plan.Differs(had, row) {
			n++
		}
	}
	for ref := range o[kind] {
		if _, there := now[kind][ref]; !there {
			n++
		}
	}
	return n
}

// lastCensus compares the rows of Networks with those before the first pod and the first node, and counts those of nodes.
func (s *scale) lastCensus(ctx context.Context) error {
	now, err := s.readOwned(ctx)
	if err != nil {
		return err
	}
	s.out.OfNodes = ofNodesCensus{
		Changed: s.bare.changed(now, ofNetworks), Rows: len(now[ofNodes]), Networks: len(now.networks(ofNodes)),
	}
	s.bare = nil
	return nil
}
