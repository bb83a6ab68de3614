package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/process/wake"
	"github.com/atoll-net/atoll/test/lab"
)

// follower has the rows by which one sees that Networks use each other. It is told of changes: to ask for them over and over
// would take processor time from what is measured.
type follower struct {
	client client.Client
	news   wake.Signal
}

func follow(ctx context.Context, address string) (*follower, error) {
	c, err := lab.Connect(ctx, address, map[string]model.Model{
		nb.TableLogicalSwitch.String():     &nb.LogicalSwitch{},
		nb.TableLogicalRouterPort.String(): &nb.LogicalRouterPort{},
		nb.TableLoadBalancerGroup.String(): &nb.LoadBalancerGroup{},
	})
	if err != nil {
		return nil, err
	}
	f := &follower{client: c, news: wake.NewSignal()}
	c.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { f.news.Send() },
		UpdateFunc: func(string, model.Model, model.Model) { f.news.Send() },
		DeleteFunc: func(string, model.Model) { f.news.Send() },
	})
	s, p, g := &nb.LogicalSwitch{}, &nb.LogicalRouterPort{}, &nb.LoadBalancerGroup{}
	if _, err := c.Monitor(ctx,
		c.NewMonitor(client.WithTable(s, &s.Name, &s.LoadBalancerGroups), client.WithTable(p, &p.Name, &p.Peer),
			client.WithTable(g, &g.Name))); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor what Networks know of each other: %w", err)
	}
	return f, nil
}

func (f *follower) close() { f.client.Close() }

// users are the switches on which the load balancers are of what a Network offers: they come with all else that its consumers need.
func (f *follower) users(ctx context.Context, provider string) (map[string]bool, error) {
	out := map[string]bool{}
	var groups []nb.LoadBalancerGroup
	if err := f.client.WhereCache(func(g *nb.LoadBalancerGroup) bool { return strings.Contains(g.Name, "/"+provider+":offered/") }).List(ctx,
		&groups); err != nil {
		return nil, fmt.Errorf("read groups of load balancers: %w", err)
	}
	for _, g := range groups {
		var switches []nb.LogicalSwitch
		if err := f.client.WhereCache(func(s *nb.LogicalSwitch) bool { return slices.Contains(s.LoadBalancerGroups, g.UUID) }).List(ctx,
			&switches); err != nil {
			return nil, fmt.Errorf("read switches: %w", err)
		}
		for _, s := range switches {
			out[s.Name] = true
		}
	}
	return out, nil
}

// joints are the ports of routers that lead to another Network's.
func (f *follower) joints(ctx context.Context) (map[string]bool, error) {
	var ports []nb.LogicalRouterPort
	if err := f.client.WhereCache(func(p *nb.LogicalRouterPort) bool { return p.Peer != nil }).List(ctx, &ports); err != nil {
		return nil, fmt.Errorf("read ports of routers: %w", err)
	}
	out := map[string]bool{}
	for _, p := range ports {
		out[p.Name] = true
	}
	return out, nil
}

// await waits until something is so; what names it in the error.
func (m *measuring) await(ctx context.Context, what string, so func(context.Context, *follower) (bool, error)) error {
	limit := time.NewTimer(lab.Patience)
	defer limit.Stop()
	for {
		if is, err := so(ctx, m.rows); is || err != nil {
			return err
		}
		select {
		case <-m.rows.news:
		case <-limit.C:
			return fmt.Errorf("wait for %s: it does not come true within %s", what, lab.Patience)
		case <-m.Controller.Done():
			return fmt.Errorf("wait for %s: %w", what, m.Controller.Ended())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}
