package main

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

func edgeName(kind string, i int) string { return fmt.Sprintf("%s-%02d", kind, i) }

// pairOf is one Network that begins to use another one, and ends it.
type pairOf struct {
	// says is the Network whose object is changed, and there whether the rows are as they should be then.
	says        *v1alpha1.Network
	begin, end  func(*v1alpha1.NetworkSpec)
	there, gone func(context.Context, *follower) (bool, error)
}

// edges makes Networks up to a number, and then has single ones begin to use each other, and end it. A node with OVN has pods of
// those that do.
func (m *measuring) edges(ctx context.Context) error {
	var others []*v1alpha1.Network
	const fresh = 5 // Networks of each turn: a consumer, one more with its provider, and two that are joined
	for i := range m.o.networks - m.networks - fresh*m.o.edges {
		n := lab.Network(fmt.Sprintf("other-%04d", i), subnet())
		n.Spec.Tenant = n.Name
		others = append(others, n)
	}
	if err := m.make(ctx, 1, others...); err != nil {
		return err
	}
	node, err := m.startNode(ctx, "edge")
	if err != nil {
		return err
	}
	kinds := []struct {
		what  string
		pairs []pairOf
	}{
		{what: fmt.Sprintf("by face, a Network that %d use", m.o.consumers+m.o.more)},
		{what: "by face, a Network that nobody uses"},
		{what: "Routed, two Networks"},
	}
	for i := range m.o.edges {
		more, first, second := lab.Network(edgeName("more", i), subnet()), lab.Network(edgeName("first", i),
			subnet()), lab.Network(edgeName("offers", i), subnet())
		more.Spec.Tenant, first.Spec.Tenant, second.Spec.Tenant = more.Name, first.Name, second.Name
		second.Spec.CompatibleWith = []v1alpha1.CompatiblePeer{{All: true}}
		left, right := lab.Network(edgeName("left", i), routedSubnet(2*i)), lab.Network(edgeName("right", i), routedSubnet(2*i+1))
		left.Spec.Tenant, right.Spec.Tenant = left.Name, left.Name
		if err := m.make(ctx, 0, more, first, second, left, right); err != nil {
			return err
		}
		if err := m.pods(ctx, 1, second.Name); err != nil {
			return err
		}
		for _, n := range []*v1alpha1.Network{more, first, left, right} {
			if err := m.plug(ctx, node, n.Name); err != nil {
				return err
			}
		}
		kinds[0].pairs = append(kinds[0].pairs, byFace(more, provider))
		kinds[1].pairs = append(kinds[1].pairs, byFace(first, second.Name))
		kinds[2].pairs = append(kinds[2].pairs, byRoute(left, right.Name))
	}
	if err := m.carried(ctx); err != nil {
		return err
	}
	m.out.Edges.Networks = m.networks
	m.progress.Done(fmt.Sprintf("%d Networks in all", m.networks))
	for _, k := range kinds {
		begins, ends := edge{What: k.what}, edge{What: k.what, Ends: true}
		for _, p := range k.pairs {
			p.begin(&p.says.Spec)
			if err := m.change(ctx, node, &begins, p.says, p.there); err != nil {
				return fmt.Errorf("%s: %w", k.what, err)
			}
		}
		for _, p := range k.pairs {
			p.end(&p.says.Spec)
			if err := m.change(ctx, node, &ends, p.says, p.gone); err != nil {
				return fmt.Errorf("the end of %s: %w", k.what, err)
			}
		}
		m.out.Edges.Kinds = append(m.out.Edges.Kinds, begins, ends)
		m.progress.Done("one more and one less " + k.what)
	}
	return nil
}

// change changes a Network, and adds to out how long that takes: until its rows are in the northbound database, until ovn-northd
// has carried them on, and until the node has them.
func (m *measuring) change(
	ctx context.Context, node *node, out *edge, n *v1alpha1.Network, so func(context.Context, *follower) (bool, error),
) error {
	if err := m.carried(ctx); err != nil {
		return err
	}
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return err
	}
	before, err := m.spentBy(node)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := m.Apply(ctx, n); err != nil {
		return err
	}
	if err := m.await(ctx, n.Name+" as its object says", so); err != nil {
		return err
	}
	rows := time.Since(start)
	if _, err := m.Database.NBCtl(ctx, "--timeout=600", "--wait=sb", "sync"); err != nil {
		return err
	}
	northd := time.Since(start)
	if err := m.carried(ctx); err != nil {
		return err
	}
	carried := time.Since(start)
	after, err := m.spentBy(node)
	if err != nil {
		return err
	}
	others, err := meter.Others()
	if err != nil {
		return err
	}
	out.Turns = append(out.Turns, turn{
		RowsSeconds: rows.Seconds(), NorthdSeconds: northd.Seconds(), NodeSeconds: carried.Seconds(), Others: others,
		Northd: ms(after[0] - before[0]), Controller: ms(after[1] - before[1]), Node: ms(after[2] - before[2]),
	})
	return nil
}

// spentBy is the processor time that ovn-northd, the controller and a node's ovn-controller have used.
func (m *measuring) spentBy(n *node) (out [3]time.Duration, err error) {
	if out[0], err = lab.FineCPUOf(m.Database.PID("northd")); err != nil {
		return out, err
	}
	if out[1], err = m.Controller.CPU(); err != nil {
		return out, err
	}
	out[2], err = n.spent()
	return out, err
}

// byFace is a Network that begins to use another one by faces.
func byFace(n *v1alpha1.Network, other string) pairOf {
	knows := func(want bool) func(context.Context, *follower) (bool, error) {
		return func(ctx context.Context, rows *follower) (bool, error) {
			users, err := rows.users(ctx, other)
			return users[n.Name+"/a"] == want, err
		}
	}
	return pairOf{
		says: n, begin: func(s *v1alpha1.NetworkSpec) { s.Uses = []string{other} }, end: func(s *v1alpha1.NetworkSpec) { s.Uses = nil },
		there: knows(true), gone: knows(false),
	}
}

// byRoute is a Network whose pods begin to reach another one's, both joined by mode Routed.
func byRoute(n *v1alpha1.Network, other string) pairOf {
	both := func(want bool) func(context.Context, *follower) (bool, error) {
		return func(ctx context.Context, rows *follower) (bool, error) {
			ends, err := rows.joints(ctx)
			return ends[model.JointPortName(n.Name, other)] == want && ends[model.JointPortName(other, n.Name)] == want, err
		}
	}
	return pairOf{
		says: n, begin: func(s *v1alpha1.NetworkSpec) {
			s.CompatibleWith = []v1alpha1.CompatiblePeer{{Network: other, Mode: v1alpha1.CompatibilityRouted}}
		}, end: func(s *v1alpha1.NetworkSpec) { s.CompatibleWith = nil },
		there: both(true), gone: both(false),
	}
}

// routedSubnet has addresses of its own among those that are joined.
func routedSubnet(i int) v1alpha1.Subnet {
	return v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(fmt.Sprintf("10.200.%d.0/24", i))}}
}
