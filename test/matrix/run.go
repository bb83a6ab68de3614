package matrix

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Program is netprobe's path in its image.
const Program = "/netprobe"

// maxExecs bounds the execs that run at once.
const maxExecs = 16

// Exec runs a command in a pod and returns what it printed to stdout.
type Exec func(ctx context.Context, namespace, pod string, stdin io.Reader, command ...string) ([]byte, error)

// Run probes all paths between pods, each source with one exec, then asks each pod what it saw.
func Run(ctx context.Context, exec Exec, pods []Pod) (*Matrix, error) {
	started := time.Now()
	prefix, err := NewToken()
	if err != nil {
		return nil, err
	}
	results := make([]map[string]wire.Result, len(pods))
	err = each(ctx, pods, func(ctx context.Context, i int) error {
		probed, err := Probe(ctx, exec, pods[i].Namespace, pods[i].Name, targetsOf(prefix, pods, i))
		results[i] = probed
		return err
	})
	if err != nil {
		return nil, err
	}
	// Only now is every token where it will ever be.
	seenBy := map[string][]int{}
	seen := make([][]wire.Sighting, len(pods))
	err = each(ctx, pods, func(ctx context.Context, i int) error {
		sightings, err := Seen(ctx, exec, pods[i].Namespace, pods[i].Name, prefix)
		seen[i] = sightings
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, sightings := range seen {
		for _, s := range sightings {
			seenBy[s.Token] = append(seenBy[s.Token], i)
		}
	}
	m := &Matrix{Pods: pods, Took: time.Since(started)}
	for from := range pods {
		for to := range pods {
			if from == to {
				continue
			}
			for _, protocol := range protocols {
				token := tokenOf(prefix, from, to, protocol)
				result, ok := results[from][token]
				if !ok {
					return nil, fmt.Errorf("probe from %s: no result for %s by %s", pods[from], pods[to], protocol)
				}
				m.Paths = append(m.Paths, judge(pods, from, to, protocol, evidence{result: result, seenBy: seenBy[token]}))
			}
		}
	}
	return m, nil
}

// each calls f for every pod, a bounded number at once.
func each(ctx context.Context, pods []Pod, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxExecs)
	for i := range pods {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// targetsOf are all the others, by all protocols.
func targetsOf(prefix string, pods []Pod, from int) []wire.Target {
	var targets []wire.Target
	for to, pod := range pods {
		if to == from {
			continue
		}
		for _, protocol := range protocols {
			targets = append(targets, wire.Target{
				Address: pod.Address, Protocol: protocol, Token: tokenOf(prefix, from, to, protocol),
			})
		}
	}
	return targets
}

func tokenOf(prefix string, from, to int, protocol wire.Protocol) string {
	return fmt.Sprintf("%s-%d-%d-%s", prefix, from, to, protocol)
}

// NewToken makes a token that no other run has.
func NewToken() (string, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// Probe probes targets from a pod and returns the results by token.
func Probe(ctx context.Context, exec Exec, namespace, pod string, targets []wire.Target) (map[string]wire.Result, error) {
	stdin, err := json.Marshal(targets)
	if err != nil {
		return nil, fmt.Errorf("encode targets: %w", err)
	}
	out, err := exec(ctx, namespace, pod, bytes.NewReader(stdin), Program, "probe")
	if err != nil {
		return nil, fmt.Errorf("probe from %s/%s: %w", namespace, pod, err)
	}
	var results []wire.Result
	if err := json.Unmarshal(out, &results); err != nil {
		return nil, fmt.Errorf("read results of %s/%s: %w (%s)", namespace, pod, err, strings.TrimSpace(string(out)))
	}
	byToken := make(map[string]wire.Result, len(results))
	for _, r := range results {
		byToken[r.Token] = r
	}
	return byToken, nil
}

// Seen asks a pod for the tokens with that prefix that reached it.
func Seen(ctx context.Context, exec Exec, namespace, pod, prefix string) ([]wire.Sighting, error) {
	out, err := exec(ctx, namespace, pod, nil, Program, "seen", "-prefix", prefix)
	if err != nil {
		return nil, fmt.Errorf("ask %s/%s what it saw: %w", namespace, pod, err)
	}
	var sightings []wire.Sighting
	if err := json.Unmarshal(out, &sightings); err != nil {
		return nil, fmt.Errorf("read what %s/%s saw: %w (%s)", namespace, pod, err, strings.TrimSpace(string(out)))
	}
	return sightings, nil
}
