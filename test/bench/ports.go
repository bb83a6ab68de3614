package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/nb"
)

// port is what we look at of a logical switch port.
type port struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

// CloneModel implements model.CloneableModel; without them the client copies each row by way of JSON.
func (p *port) CloneModel() model.Model { c := *p; return &c }

// CloneModelInto implements model.CloneableModel.
func (p *port) CloneModelInto(to model.Model) {
	if to, ok := to.(*port); ok {
		*to = *p
	}
}

// EqualsModel implements model.ComparableModel.
func (p *port) EqualsModel(other model.Model) bool {
	o, ok := other.(*port)
	return ok && *p == *o
}

// ports knows when each logical switch port was first seen in the database.
type ports struct {
	client client.Client
	news   chan struct{}

	mu   sync.Mutex
	seen map[string]time.Time
}

func watchPorts(ctx context.Context, address string) (*ports, error) {
	c, err := connect(ctx, address, map[string]model.Model{string(nb.TableLogicalSwitchPort): &port{}})
	if err != nil {
		return nil, err
	}
	p := &ports{client: c, news: make(chan struct{}, 1), seen: map[string]time.Time{}}
	c.Cache().AddEventHandler(&cache.EventHandlerFuncs{AddFunc: func(_ string, m model.Model) {
		if row, ok := m.(*port); ok {
			p.saw(row.Name, time.Now())
		}
	}})
	if _, err := c.MonitorAll(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor ports: %w", err)
	}
	return p, nil
}

func connect(ctx context.Context, address string, tables map[string]model.Model) (client.Client, error) {
	dbModel, err := model.NewClientDBModel(nb.DatabaseName, tables)
	if err != nil {
		return nil, fmt.Errorf("describe database: %w", err)
	}
	silent := logr.Discard()
	c, err := client.NewOVSDBClient(dbModel, client.WithEndpoint(address), client.WithLogger(&silent))
	if err != nil {
		return nil, fmt.Errorf("make database client: %w", err)
	}
	if err := c.Connect(ctx); err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return c, nil
}

func (p *ports) close() { p.client.Close() }

func (p *ports) saw(name string, at time.Time) {
	p.mu.Lock()
	p.seen[name] = at
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// when says when a port was first seen.
func (p *ports) when(name string) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, seen := p.seen[name]
	return at, seen
}

// await waits until all ports of the names have been seen. One caller at a time.
func (p *ports) await(ctx context.Context, names []string, failed <-chan struct{}) error {
	for i, name := range names {
		for {
			if _, seen := p.when(name); seen {
				break
			}
			select {
			case <-p.news:
			case <-failed:
				return errors.New("the controller ended")
			case <-ctx.Done():
				return fmt.Errorf("wait for row %d of %d, %s: %w", i+1, len(names), name, ctx.Err())
			}
		}
	}
	return nil
}
