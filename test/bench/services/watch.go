package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/process/wake"
	"github.com/atoll-net/atoll/test/lab"
)

// balancer is what we look at of a load balancer.
type balancer struct {
	UUID string            `ovsdb:"_uuid"`
	Name string            `ovsdb:"name"`
	Vips map[string]string `ovsdb:"vips"`
}

// CloneModel implements model.CloneableModel; without them the client copies each row by way of JSON.
func (b *balancer) CloneModel() model.Model {
	c := &balancer{}
	b.CloneModelInto(c)
	return c
}

// CloneModelInto implements model.CloneableModel.
func (b *balancer) CloneModelInto(to model.Model) {
	if to, ok := to.(*balancer); ok {
		*to = *b
		to.Vips = maps.Clone(b.Vips)
	}
}

// EqualsModel implements model.ComparableModel.
func (b *balancer) EqualsModel(other model.Model) bool {
	o, ok := other.(*balancer)
	return ok && b.UUID == o.UUID && b.Name == o.Name && maps.Equal(b.Vips, o.Vips)
}

// arrivals knows how many endpoints each load balancer has in the database, and since when.
type arrivals struct {
	client client.Client
	news   wake.Signal

	mu  sync.Mutex
	now map[string]count
}

// count is how many endpoints the only virtual address of a load balancer has.
type count struct {
	endpoints int
	since     time.Time
}

// watchBalancers monitors the load balancers of Services.
func watchBalancers(ctx context.Context, address string) (*arrivals, error) {
	c, err := lab.Connect(ctx, address, map[string]model.Model{nb.TableLoadBalancer.String(): &balancer{}})
	if err != nil {
		return nil, err
	}
	a := &arrivals{client: c, news: wake.NewSignal(), now: map[string]count{}}
	saw := func(m model.Model) {
		if row, ok := m.(*balancer); ok {
			a.saw(row, time.Now())
		}
	}
	c.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(_ string, m model.Model) { saw(m) },
		UpdateFunc: func(_ string, _, m model.Model) { saw(m) },
	})
	row := &balancer{}
	if _, err := c.Monitor(ctx, c.NewMonitor(client.WithTable(row, &row.Name, &row.Vips))); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor load balancers: %w", err)
	}
	return a, nil
}

func (a *arrivals) close() { a.client.Close() }

func (a *arrivals) saw(b *balancer, at time.Time) {
	if len(b.Vips) != 1 {
		return
	}
	endpoints := 0
	for _, backends := range b.Vips {
		if backends != "" {
			endpoints = strings.Count(backends, ",") + 1
		}
	}
	a.mu.Lock()
	if a.now[b.Name].endpoints != endpoints || a.now[b.Name].since.IsZero() {
		a.now[b.Name] = count{endpoints, at}
	}
	a.mu.Unlock()
	a.news.Send()
}

// await waits until a load balancer has so many endpoints, and says since when. One caller at a time.
func (a *arrivals) await(ctx context.Context, name string, endpoints int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	for {
		a.mu.Lock()
		c := a.now[name]
		a.mu.Unlock()
		if c.endpoints == endpoints && !c.since.IsZero() {
			return c.since, nil
		}
		select {
		case <-a.news:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for %d endpoints of %s, which has %d: %w", endpoints, name, c.endpoints, ctx.Err())
		}
	}
}
