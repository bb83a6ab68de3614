package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// removal is how everything went away again. Seconds from the first deletion.
type removal struct {
	// Pods is when the API server had none of the pods any more, Portholes when no node had a porthole.
	Pods      float64 `json:"podsSeconds"`
	Portholes float64 `json:"portholesSeconds"`
	// All is when each node was as it had been before the first pod; Left what was not.
	All    float64  `json:"allSeconds"`
	Left   []string `json:"left,omitempty"`
	Others float64  `json:"others"`
}

// removeAll deletes all pods and waits until the nodes are as they were.
func (c *cluster) removeAll(ctx context.Context, empty map[string][]string, how way) (out removal, err error) {
	meter, err := lab.StartMeter(c.Families...)
	if err != nil {
		return out, err
	}
	began := time.Now()
	if err := c.deletePods(ctx, how); err != nil {
		return out, err
	}
	out.Pods = time.Since(began).Seconds()
	if err := c.noPortholes(ctx); err != nil {
		return out, err
	}
	out.Portholes = time.Since(began).Seconds()
	// The sweep, which mends what went wrong, comes every minute.
	late, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	waited := harness.Await(late, "the nodes to be as they were", func(ctx context.Context) (bool, error) {
		now, err := c.remains(ctx)
		if err != nil {
			return false, err
		}
		out.Left = nil
		for node, things := range now {
			for _, thing := range things {
				if !slices.Contains(empty[node], thing) {
					out.Left = append(out.Left, node+": "+thing)
				}
			}
		}
		return len(out.Left) == 0, nil
	})
	if waited != nil && len(out.Left) == 0 {
		return out, waited
	}
	out.All = time.Since(began).Seconds()
	out.Others, err = meter.Others()
	return out, err
}

// noPortholes waits until no node has a porthole.
func (c *cluster) noPortholes(ctx context.Context) error {
	return harness.Await(ctx, "portholes to go", func(ctx context.Context) (bool, error) {
		count, err := c.portholes(ctx)
		return count == 0, err
	})
}

// portholes counts the network namespaces of portholes on all nodes.
func (c *cluster) portholes(ctx context.Context) (int, error) {
	count := 0
	for _, node := range c.Box.Nodes() {
		names, err := c.namespaces(ctx, node)
		if err != nil {
			return 0, err
		}
		count += len(names)
	}
	return count, nil
}

func (c *cluster) namespaces(ctx context.Context, node string) ([]string, error) {
	// Before the first pod there is no such directory.
	out, err := c.Box.Exec(ctx, node, "find", "/run/", "-maxdepth", "2", "-path", "/run/netns/atoll-*")
	return strings.Fields(string(out)), err
}

// remains is what there is of Atoll on each node, one line each: namespaces, links, ports of the bridge, routes, rules.
func (c *cluster) remains(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	for _, node := range c.Box.Nodes() {
		names, err := c.namespaces(ctx, node)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			out[node] = append(out[node], "namespace "+name)
		}
		for _, look := range []struct {
			what  string
			first bool
			argv  []string
		}{
			{"link", true, []string{"ip", "-br", "link"}},
			{"port", false, []string{"ovs-vsctl", "list-ports", "br-int"}},
			{"route", false, []string{"ip", "route", "show", "proto", routeProtocol}},
			{"route", false, []string{"ip", "-6", "route", "show", "proto", routeProtocol}},
			{"table", false, []string{"nft", "list", "tables"}},
			{"rule", false, []string{"nft", "-s", "list", "table", "inet", "atoll"}},
		} {
			text, err := c.Box.Exec(ctx, node, look.argv...)
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				if look.first {
					// State and address of a link change with those of others.
					line, _, _ = strings.Cut(strings.Fields(line)[0], "@")
				}
				out[node] = append(out[node], fmt.Sprintf("%s %s", look.what, line))
			}
		}
	}
	return out, nil
}

// routeProtocol marks the agent's routes. (docs/design/porthole.md.)
const routeProtocol = "167"
