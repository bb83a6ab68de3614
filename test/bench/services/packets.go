package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

const (
	// rounds is how often each way of asking is measured, in turn, so that others on the machine disturb all alike; the round in
	// the middle counts.
	rounds = 9
	// askers is how many ask at once.
	askers = 4
)

// pace is how fast questions were answered.
type pace struct {
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50Milliseconds"`
}

// asked compares asking a pod through its Service and directly.
type asked struct {
	What string `json:"what"`
	// Kept: one connection for all questions of an asker; else one for each.
	Kept    bool    `json:"kept"`
	Virtual pace    `json:"virtual"`
	Direct  pace    `json:"direct"`
	Others  float64 `json:"others"`
}

func (a asked) ratio() float64 { return a.Virtual.PerSecond / a.Direct.PerSecond }

// packetResults are those of the part in the sandbox.
type packetResults struct {
	Asked          []asked   `json:"asked"`
	Rolling        []rolling `json:"rolling"`
	Ended          []ended   `json:"ended"`
	Rollouts       int       `json:"rollouts"`
	Replicas       int       `json:"replicas"`
	RollingSeconds float64   `json:"rollingSeconds"`
	RollingOthers  float64   `json:"rollingOthers"`
}

func measurePackets(ctx context.Context, o options, progress *lab.Progress) (*packetResults, error) {
	out := &packetResults{Rollouts: o.rollouts, Replicas: replicas}
	err := inSandbox(ctx, o, func(c *cluster) error {
		progress.Done("sandbox")
		if _, err := c.deploy(ctx, "client", c.Box.Nodes()[0], 1); err != nil {
			return err
		}
		client, err := c.only(ctx, "client")
		if err != nil {
			return err
		}
		for _, place := range []struct{ what, name, node string }{
			{"same node", "near", c.Box.Nodes()[0]}, {"other node", "far", c.Box.Nodes()[1]},
		} {
			virtual, err := c.deploy(ctx, place.name, place.node, 1)
			if err != nil {
				return err
			}
			server, err := c.only(ctx, place.name)
			if err != nil {
				return err
			}
			direct, err := matrix.AddressOf(server)
			if err != nil {
				return err
			}
			if err := c.serves(ctx, client.Name, netip.AddrPortFrom(virtual, wire.DefaultPort)); err != nil {
				return err
			}
			for _, kept := range []bool{false, true} {
				a, err := c.compare(ctx, client.Name, virtual, direct, kept, o.ask)
				if err != nil {
					return err
				}
				a.What = place.what + ", " + map[bool]string{false: "a connection for each question", true: "connections that are kept"}[kept]
				out.Asked = append(out.Asked, a)
				progress.Done(a.What)
			}
		}
		err = c.replace(ctx, client.Name, o, out, progress)
		progress.Done("rollouts")
		return err
	})
	return out, err
}

// compare asks through a virtual address and directly, in turn.
func (c *cluster) compare(
	ctx context.Context, client string, virtual, direct netip.Addr, kept bool, duration time.Duration,
) (out asked, err error) {
	out.Kept = kept
	by, port := wire.LoadTCP, uint16(wire.DefaultPort)
	if kept {
		by, port = wire.LoadHTTP, wire.HTTPPort
	}
	meter, err := lab.StartMeter(c.Families...)
	if err != nil {
		return out, err
	}
	paces := map[netip.Addr][]pace{}
	for range rounds {
		for _, at := range []netip.Addr{direct, virtual} {
			load, err := c.load(ctx, client, netip.AddrPortFrom(at, port), by, duration, fmt.Sprintf("-workers=%d", askers))
			if err != nil {
				return out, err
			}
			if len(load.Errors) > 0 {
				return out, fmt.Errorf("ask %s: %v", at, load.Errors)
			}
			paces[at] = append(paces[at], pace{float64(load.Answers) / load.Seconds, load.P50.Seconds() * 1000})
		}
	}
	others, err := meter.Others()
	if err != nil {
		return out, err
	}
	out.Virtual, out.Direct, out.Others = middle(paces[virtual]), middle(paces[direct]), others
	return out, nil
}

func middle(of []pace) pace {
	sorted := slices.SortedFunc(slices.Values(of), func(a, b pace) int {
		if a.PerSecond < b.PerSecond {
			return -1
		}
		return 1
	})
	return sorted[len(sorted)/2]
}
