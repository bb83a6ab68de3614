package main

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/lab"
)

// lagoon is the tenant of Networks that mode Routed joins.
const lagoon = "lagoon"

func joinedName(i int) string { return fmt.Sprintf("joined-%04d", i) }

// joined makes Networks of different addresses with a pod each, joins all of them to each other at once, and then two more to
// nobody but each other. A node with OVN has a pod of one.
func (m *measuring) joined(ctx context.Context) error {
	var all []*v1alpha1.Network
	for i := range m.o.joined + 2 {
		n := lab.Network(joinedName(i), v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(fmt.Sprintf("10.%d.0.0/24", 100+i))}})
		n.Spec.Tenant = lagoon
		all = append(all, n)
	}
	if err := m.make(ctx, 1, all...); err != nil {
		return err
	}
	node, err := m.startNode(ctx, "joined")
	if err != nil {
		return err
	}
	if err := m.plug(ctx, node, joinedName(0)); err != nil {
		return err
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	out := &m.out.Joined
	out.Networks = m.o.joined
	if out.Node.Before, err = node.look(ctx); err != nil {
		return err
	}
	if out.All, err = m.join(ctx, m.o.joined*(m.o.joined-1)/2, all[:m.o.joined]...); err != nil {
		return err
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	if out.Node.After, err = node.look(ctx); err != nil {
		return err
	}
	m.progress.Done(fmt.Sprintf("%d Networks joined to each other", m.o.joined))
	m.progress.Say("ovn-controller with a pod of one: %.1f MB, %.1f before", out.Node.After.ResidentMB, out.Node.Before.ResidentMB)
	if out.One, err = m.join(ctx, m.o.joined*(m.o.joined-1)/2+1, all[m.o.joined:]...); err != nil {
		return err
	}
	m.progress.Done("one pair more")
	return nil
}

// join joins each of some Networks to each other, and waits until so many pairs are there.
func (m *measuring) join(ctx context.Context, pairs int, networks ...*v1alpha1.Network) (out joints, err error) {
	before, err := m.used(ctx)
	if err != nil {
		return out, err
	}
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return out, err
	}
	start := time.Now()
	load := lab.Load{Count: len(networks), Workers: creators}
	if err := load.Run(ctx, func(ctx context.Context, i int) error {
		n := networks[i]
		for _, other := range networks {
			if other != n {
				n.Spec.CompatibleWith = append(n.Spec.CompatibleWith, v1alpha1.CompatiblePeer{Network: other.Name, Mode: v1alpha1.CompatibilityRouted})
			}
		}
		return m.Apply(ctx, n)
	}); err != nil {
		return out, err
	}
	if err := m.await(ctx, fmt.Sprintf("%d pairs are joined", pairs), func(ctx context.Context, rows *follower) (bool, error) {
		ends, err := rows.joints(ctx)
		return len(ends) == 2*pairs, err
	}); err != nil {
		return out, err
	}
	after, err := m.used(ctx)
	if err != nil {
		return out, err
	}
	out.Seconds = time.Since(start).Seconds()
	if out.Others, err = meter.Others(); err != nil {
		return out, err
	}
	n := float64(len(networks) * (len(networks) - 1) / 2)
	out.NorthdEach, out.RowsEach, out.FlowsEach = ms(after.northd-before.northd)/n, float64(after.rows-before.rows)/n,
		float64(after.flows-before.flows)/n
	return out, nil
}
