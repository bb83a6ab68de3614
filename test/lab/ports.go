package lab

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

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/process/wake"
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

// Ports knows when each logical switch port was first seen in the database, and which are there.
type Ports struct {
	client client.Client
	news   wake.Signal

	mu   sync.Mutex
	seen map[string]time.Time
	gone map[string]time.Time
}

func watchPorts(ctx context.Context, address string) (*Ports, error) {
	c, err := Connect(ctx, address, map[string]model.Model{nb.TableLogicalSwitchPort.String(): &port{}})
	if err != nil {
		return nil, err
	}
	p := newPorts(c, func(m model.Model) (string, bool) {
		if row, ok := m.(*port); ok {
			return row.Name, true
		}
		return "", false
	})
	row := &port{}
	if _, err := c.Monitor(ctx, c.NewMonitor(client.WithTable(row, &row.Name))); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor ports: %w", err)
	}
	return p, nil
}

// newPorts notes when rows come and go; nameOf is the name of a row's port.
func newPorts(c client.Client, nameOf func(model.Model) (string, bool)) *Ports {
	p := &Ports{client: c, news: wake.NewSignal(), seen: map[string]time.Time{}, gone: map[string]time.Time{}}
	c.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc: func(_ string, m model.Model) {
			if name, ok := nameOf(m); ok {
				p.saw(name, time.Now())
			}
		},
		DeleteFunc: func(_ string, m model.Model) {
			if name, ok := nameOf(m); ok {
				p.lost(name, time.Now())
			}
		},
	})
	return p
}

// Connect makes a client of the northbound database that monitors nothing yet.
func Connect(ctx context.Context, address string, tables map[string]model.Model) (client.Client, error) {
	return connect(ctx, address, nb.DatabaseName, tables)
}

func connect(ctx context.Context, address, database string, tables map[string]model.Model) (client.Client, error) {
	dbModel, err := model.NewClientDBModel(database, tables)
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

// Close ends the connection.
func (p *Ports) Close() { p.client.Close() }

func (p *Ports) saw(name string, at time.Time) {
	p.mu.Lock()
	p.seen[name] = at
	delete(p.gone, name)
	p.mu.Unlock()
	p.news.Send()
}

func (p *Ports) lost(name string, at time.Time) {
	p.mu.Lock()
	delete(p.seen, name)
	p.gone[name] = at
	p.mu.Unlock()
	p.news.Send()
}

// Seen says when a port that is there came.
func (p *Ports) Seen(name string) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, seen := p.seen[name]
	return at, seen
}

// Gone says when a port that was there went.
func (p *Ports) Gone(name string) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, gone := p.gone[name]
	return at, gone
}

// Await waits until when, Seen or Gone, knows every name. One caller at a time.
func (p *Ports) Await(ctx context.Context, names []string, when func(string) (time.Time, bool), failed <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for i, name := range names {
		for {
			if _, known := when(name); known {
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
