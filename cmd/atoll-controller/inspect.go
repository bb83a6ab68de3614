package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/build"
	"github.com/atoll-net/atoll/pkg/config"
	"github.com/atoll-net/atoll/pkg/inspect"
	"github.com/atoll-net/atoll/pkg/inspectapi"
	"github.com/atoll-net/atoll/pkg/ovsdb"
)

// inspectPort is where inspection is served, unless the address says otherwise.
const inspectPort = 9413

// serveInspection answers questions until ctx ends, whether this process leads or not: it holds the cluster's objects in either case, and asks
// the databases itself.
func (p *process) serveInspection(ctx context.Context, client kubernetes.Interface) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this controller: %w", err)
	}
	var settings atomic.Pointer[config.Settings]
	go config.Follow(ctx, p.settings, func(err error) { p.log.Debug("settings cannot be read for inspection", "error", err) },
		func(s config.Settings) { settings.Store(&s) })
	mirror := inspect.NewMirror(p.database)
	defer mirror.Close()
	northbound := ovsdb.Asker{Config: p.database, Database: ovsdb.NorthboundDatabase}
	southbound := ovsdb.Asker{Config: p.southbound, Database: ovsdb.SouthboundDatabase}
	inquirer := inspect.Inquirer{
		Source: "atoll-controller " + host, Client: client,
		Held: func() (inspect.Held, error) {
			feed, known := p.feed.Load(), settings.Load()
			if feed == nil || known == nil {
				return inspect.Held{}, inspect.ErrNotRead
			}
			return inspect.HeldBy(feed, *known)
		},
		Northbound: &northbound, Southbound: &southbound, Mirror: mirror,
		Settings: func() (config.Settings, error) {
			known := settings.Load()
			if known == nil {
				return config.Settings{}, inspect.ErrNotRead
			}
			return *known, nil
		},
	}
	return inspectapi.Serve(ctx, build.ScrapeAddress(p.options.inspectAddress, inspectPort), inspectapi.Config{
		Client: client, Objects: p.settings, Answers: inquirer, Nodes: inquirer, Agents: inspectapi.AgentsBy(p.signer), Flows: inquirer, FlowAgents: inspectapi.FlowAgentsBy(p.signer), Signer: p.signer, Log: p.log, Leads: p.leading.Load,
		AllNodes: inquirer, CheckAgents: inspectapi.CheckAgentsBy(p.signer), Databases: inspectapi.Databases(northbound, southbound),
	})
}

// checkInspection says what is wrong with how inspection is asked for.
func checkInspection(o options) error {
	if o.inspectAddress != "" && !o.signs {
		return errors.New("--inspect-address needs --sign-certificates: by its certificate the API server tells who answers")
	}
	return nil
}
