package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
)

// matrixPods finds the pods of a matrix.
func matrixPods(ctx context.Context, r *client.Remote, s Spec, out *Matrix) error {
	out.Networks = slices.Clone(s.Networks)
	if s.Tenant != "" {
		networks, note, err := r.Networks(ctx)
		if note != "" {
			return &client.UnsentError{Note: note}
		}
		if err != nil {
			return err
		}
		for _, n := range networks {
			if n.Status.Tenant == s.Tenant {
				out.Networks = append(out.Networks, n.Name)
			}
		}
		if len(out.Networks) == 0 {
			return fmt.Errorf("tenant %s has no Network that you may get. Next: atoll networks", s.Tenant)
		}
	}
	for _, name := range out.Networks {
		all, err := podsOf(ctx, r, name)
		if err != nil {
			return err
		}
		chosen := sample(all, s.PodsPer)
		if left := len(all) - len(chosen); left > 0 {
			out.LeftOut = append(out.LeftOut, LeftOut{Network: name, Pods: left, All: len(all)})
		}
		for _, p := range chosen {
			out.Pods = append(out.Pods, Pod{Name: p.Namespace + "/" + p.Name, Network: name, Node: p.Status.Node, Addresses: p.Status.Addresses})
		}
	}
	switch n := len(out.Pods); {
	case n < 2:
		return fmt.Errorf("there are no two pods to send packets between: %s there. Next: atoll pods -A", model.Count(n, "pod"))
	case n > maxMatrixPods:
		return fmt.Errorf("%d pods are more than %d. Next: --pods-per %d", n, maxMatrixPods, max(maxMatrixPods/len(out.Networks), 1))
	}
	return nil
}

// podsOf returns the pods of a Network that the user may list. If the user may not list pods of all namespaces, it lists those of
// the namespaces that join the Network.
func podsOf(ctx context.Context, r *client.Remote, network string) ([]api.Pod, error) {
	n, note, err := r.Network(ctx, network)
	if note != "" {
		return nil, &client.UnsentError{Note: note}
	}
	if err != nil {
		return nil, err
	}
	listed, _, err := r.Pods(ctx, "")
	if apierrors.IsForbidden(err) && n.Status.Detail != nil {
		listed, err = nil, nil
		for _, namespace := range n.Status.Detail.Namespaces {
			some, _, problem := r.Pods(ctx, namespace)
			listed, err = append(listed, some...), errors.Join(err, problem)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the pods of Network %s: %w", network, err)
	}
	return slices.DeleteFunc(listed, func(p api.Pod) bool { return p.Status.Network != network }), nil
}

// sample are at most so many pods, sorted: one of each namespace on each node, then one more of each, so that as many kinds of
// paths as may be are among theirs.
func sample(pods []api.Pod, most int) (out []api.Pod) {
	type place struct{ namespace, node string }
	groups := map[place][]api.Pod{}
	for _, p := range pods {
		in := place{p.Namespace, p.Status.Node}
		groups[in] = append(groups[in], p)
	}
	byName := func(a, b api.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.namespace, b.namespace))
	})
	for _, group := range groups {
		slices.SortFunc(group, byName)
	}
	for round := 0; len(out) < min(most, len(pods)); round++ {
		for _, in := range order {
			if group := groups[in]; round < len(group) && len(out) < most {
				out = append(out, group[round])
			}
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// tally counts what became of packets, by the addresses that they were sent to. Those that are not known have the empty one.
type tally struct {
	addresses  map[string]bool
	good, all  int
	unnamed    bool
	repetition bool
}

func newTally() *tally { return &tally{addresses: map[string]bool{}} }

func (t *tally) count(address string, good bool) {
	if t.all++; good {
		t.good++
	}
	if address == "" {
		t.unnamed = true
		return
	}
	if _, twice := t.addresses[address]; twice {
		t.repetition = true
	}
	t.addresses[address] = good
}

func (t *tally) outcome() Outcome {
	switch t.good {
	case t.all:
		if t.all == 0 {
			return Untried
		}
		return Answered
	case 0:
		return Silent
	}
	return PartlyAnswered
}

// differs compares address by address; where these are not told, all of one with all of the other.
func (t *tally) differs(from *tally) bool {
	if t.unnamed || from.unnamed || t.repetition || from.repetition {
		return t.outcome() != from.outcome()
	}
	return !maps.Equal(t.addresses, from.addresses)
}

// addressOf is the address of what is dialled: ADDRESS or ADDRESS:PORT.
func addressOf(dialled string) string {
	if a, err := netip.ParseAddrPort(dialled); err == nil {
		return a.Addr().String()
	}
	return dialled
}
