package random

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// pods of which probes run at once: each sends some hundred.
const probing = 6

// Run probes all paths, each sender with one exec, then asks all pods what they have seen. Results are in the order of
// paths.
func Run(ctx context.Context, exec matrix.Exec, placed []Placed, paths []Path) ([]Seen, error) {
	prefix, err := matrix.NewToken()
	if err != nil {
		return nil, err
	}
	seen := make([]Seen, len(paths))
	token := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i) }
	err = each(ctx, placed, func(ctx context.Context, from int) error {
		var targets []wire.Target
		for i, p := range paths {
			if p.From == from {
				targets = append(targets, wire.Target{Address: p.Address, Protocol: p.Protocol, Port: p.Port, Token: token(i)})
			}
		}
		results, err := matrix.Probe(ctx, exec, placed[from].Namespace, placed[from].Name, targets)
		if err != nil {
			return err
		}
		for i, p := range paths {
			result, tried := results[token(i)]
			if p.From == from && !tried {
				return fmt.Errorf("%s was not tried", p.String(placed))
			}
			if tried {
				seen[i].Result = result
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Only now is every token where it will ever be.
	by, clients := map[string][]string{}, map[string][]netip.Addr{}
	var mu sync.Mutex
	err = each(ctx, placed, func(ctx context.Context, i int) error {
		sightings, err := matrix.Seen(ctx, exec, placed[i].Namespace, placed[i].Name, prefix)
		mu.Lock()
		defer mu.Unlock()
		for _, s := range sightings {
			if !slices.Contains(by[s.Token], placed[i].UID) {
				by[s.Token] = append(by[s.Token], placed[i].UID)
			}
			if !slices.Contains(clients[s.Token], s.From) {
				clients[s.Token] = append(clients[s.Token], s.From)
			}
		}
		return err
	})
	for i := range seen {
		seen[i].Witnesses, seen[i].Clients = by[token(i)], clients[token(i)]
	}
	return seen, err
}

// each calls f for every pod, a bounded number at once.
func each(ctx context.Context, placed []Placed, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(probing)
	for i := range placed {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// Verdict is what is wrong with all paths, in words. Leaked counts those that were heard by somebody who must not.
func Verdict(placed []Placed, paths []Path, seen []Seen) (wrong []string, leaked int) {
	names := map[string]string{}
	for _, p := range placed {
		names[p.UID] = p.String()
	}
	for i, p := range paths {
		what, leak := Judge(p, seen[i])
		if what == "" {
			continue
		}
		for uid, name := range names {
			what = strings.ReplaceAll(what, uid, name)
		}
		if leak {
			leaked++
		}
		wrong = append(wrong, p.String(placed)+": "+what)
	}
	return wrong, leaked
}
