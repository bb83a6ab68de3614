//go:build e2e

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// sendAll looks names up, sends packets of all paths, and asks all pods what they have seen.
func sendAll(ctx context.Context, world between.World, all []*explained) error {
	if err := eachPod(ctx, world, func(ctx context.Context, from int) error { return lookUpNames(ctx, world, from, all) }); err != nil {
		return err
	}
	prefix, err := matrix.NewToken()
	if err != nil {
		return err
	}
	tokens := map[string]func(wire.Result){}
	targets := make([][]wire.Target, len(world.Pods))
	sightings := map[string]func(uid string){}
	for _, e := range all {
		e.seen = map[netip.Addr]random.Seen{}
		for _, address := range e.dialled(world) {
			token := fmt.Sprintf("%s-%d", prefix, len(tokens))
			tokens[token] = func(r wire.Result) {
				s := e.seen[address]
				s.Result = r
				e.seen[address] = s
			}
			sightings[token] = func(uid string) {
				s := e.seen[address]
				if !slices.Contains(s.Witnesses, uid) {
					s.Witnesses = append(s.Witnesses, uid)
				}
				e.seen[address] = s
			}
			targets[e.from] = append(targets[e.from], wire.Target{Address: address, Protocol: e.protocol, Port: e.port, Token: token})
		}
	}
	var mu sync.Mutex
	err = eachPod(ctx, world, func(ctx context.Context, i int) error {
		if len(targets[i]) == 0 {
			return nil
		}
		results, err := matrix.Probe(ctx, env.Exec, world.Pods[i].Namespace, world.Pods[i].Name, targets[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, target := range targets[i] {
			result, tried := results[target.Token]
			if !tried {
				return fmt.Errorf("%s has not tried %s", world.Pods[i], target.Address)
			}
			tokens[target.Token](result)
			// The outside says who it is, and is not asked what it has seen.
			if result.Answerer.UID == sandbox.Outside {
				sightings[target.Token](sandbox.Outside)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return eachPod(ctx, world, func(ctx context.Context, i int) error {
		seen, err := matrix.Seen(ctx, env.Exec, world.Pods[i].Namespace, world.Pods[i].Name, prefix)
		mu.Lock()
		defer mu.Unlock()
		for _, s := range seen {
			if note := sightings[s.Token]; note != nil {
				note(world.Pods[i].UID)
			}
		}
		return err
	})
}

// eachPod calls f for every pod, a bounded number at once.
func eachPod(ctx context.Context, world between.World, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookingUp)
	for i := range world.Pods {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// lookUpNames has a pod look up the names that it dials.
func lookUpNames(ctx context.Context, world between.World, from int, all []*explained) error {
	command := []string{matrix.Program, "resolve"}
	var of []*explained
	for _, e := range all {
		if e.from == from && e.name != "" {
			of, command = append(of, e), append(command, e.name)
		}
	}
	if len(of) == 0 {
		return nil
	}
	out, err := env.Exec(ctx, world.Pods[from].Namespace, world.Pods[from].Name, nil, command...)
	if err != nil {
		return err
	}
	var names []wire.Name
	if err := json.Unmarshal(out, &names); err != nil || len(names) != len(of) {
		return fmt.Errorf("read %s: %w", out, err)
	}
	for i, e := range of {
		e.resolved, e.unresolved = names[i].Addresses, names[i].Error
	}
	return nil
}

// dialled are the addresses that packets go to: that of the path, or those of its name of which the pod has the family.
func (e *explained) dialled(world between.World) (out []netip.Addr) {
	if e.name == "" {
		return []netip.Addr{e.address}
	}
	for _, a := range e.resolved {
		if slices.ContainsFunc(world.Pods[e.from].Own, func(own netip.Addr) bool { return own.Is4() == a.Is4() }) {
			out = append(out, a)
		}
	}
	return out
}

// judge compares what explain says with what packets did; empty: it agrees.
func (e *explained) judge(world between.World) string {
	if e.err != nil {
		return "explain does not answer: " + e.err.Error()
	}
	first := e.says.First()
	found := first == nil || first.Layer != inspect.LayerName && !strings.Contains(first.What, "the question for ")
	if e.name != "" && found != (len(e.resolved) > 0) {
		return fmt.Sprintf("the name is %v %s", e.resolved, e.unresolved)
	}
	if e.name == outsideName {
		// What the rest of the world answers is not Atoll's to know: an address of documents stands for it.
		return ""
	}
	ways := map[netip.Addr][]inspect.Way{}
	for _, w := range e.says.Ways {
		at, err := netip.ParseAddrPort(w.Dialled)
		if err == nil {
			ways[at.Addr()] = append(ways[at.Addr()], w)
		}
	}
	for _, address := range e.dialled(world) {
		of, said := ways[address]
		if !said && e.name != "" {
			return fmt.Sprintf("the name is %v, and %s is not among what it says is dialled", e.resolved, address)
		}
		if !said {
			of = e.says.Ways
		}
		if wrong, _ := random.Judge(e.expected(world, address, of), e.seen[address]); wrong != "" {
			return fmt.Sprintf("%s: %s", address, wrong)
		}
		delete(ways, address)
	}
	if len(ways) > 0 && e.name != "" && found {
		return fmt.Sprintf("the name is %v, and it says that %v are dialled", e.resolved, ways)
	}
	return ""
}

// expected is what must become of packets to an address, by what explain says of the ways that they may take.
func (e *explained) expected(world between.World, address netip.Addr, ways []inspect.Way) random.Path {
	p := random.Path{From: e.from, Address: address, Protocol: e.protocol}
	for _, w := range ways {
		switch {
		case !w.Reached:
			p.Open = true
		case strings.HasPrefix(w.To, "outside, "):
			// Who has an address there, only the sandbox's outside says.
			if slices.Contains(sandbox.OutsideAddresses(), address) {
				p.May = append(p.May, sandbox.Outside)
			}
		default:
			i := slices.IndexFunc(world.Pods, func(pod between.Placed) bool { return "pod "+pod.Namespace+"/"+pod.Name == w.To })
			if i < 0 {
				p.May = append(p.May, w.To)
				continue
			}
			p.May = append(p.May, world.Pods[i].UID)
		}
	}
	p.Open = p.Open && len(p.May) > 0
	return p
}
