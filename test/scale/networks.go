package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/nb"
	"github.com/atoll-net/atoll/test/lab"
)

// networks makes the Networks, and counts rows on the way; the one in the middle and the last are made alone.
func (s *scale) networks(ctx context.Context) error {
	if err := s.startController(ctx); err != nil {
		return err
	}
	var names []string
	for i := range s.o.networks {
		names = append(names, networkName(i))
	}
	if err := s.CreateNamespaces(ctx, names...); err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	defer func() {
		if s.chassis != nil {
			s.chassis.stop()
		}
	}()
	start, made := time.Now(), 0
	for i, upTo := range []int{1, s.o.networks/2 - 1, s.o.networks / 2, s.o.networks - 1, s.o.networks} {
		var more []*v1alpha1.Network
		for ; made < upTo; made++ {
			more = append(more, lab.Network(networkName(made), subnets()...))
		}
		one := time.Now()
		if err := s.CreateNetworks(ctx, more...); err != nil {
			return err
		}
		took := time.Since(one)
		rows, err := s.census(ctx)
		if err != nil {
			return err
		}
		at := census{Networks: made, Rows: rows, ReadySeconds: took.Seconds()}
		if s.o.northd {
			if err := s.carry(ctx, &at, len(more) == 1); err != nil {
				return err
			}
		}
		if s.carried != nil {
			at.NorthdSeconds, at.ControllerSeconds = s.carried[i].NorthdSeconds, s.carried[i].ControllerSeconds
		}
		s.out.Census = append(s.out.Census, at)
		s.progress.Say("%d Networks, %d rows, northd %.2f s, ovn-controller %.2f s", made, rows, at.NorthdSeconds, at.ControllerSeconds)
	}
	s.out.NetworksSeconds = time.Since(start).Seconds()
	return s.settle(ctx)
}

// elsewhere makes the Networks in a place of its own, where ovn-northd and one node's ovn-controller run: they would take
// processor time from all that is measured afterwards.
func (s *scale) elsewhere(ctx context.Context) (_ []census, err error) {
	other := &scale{o: s.o, progress: s.progress}
	other.o.northd = true
	if other.Lab, err = lab.Start(ctx, other.o.lab()); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.Stop()) }()
	if err := other.networks(ctx); err != nil {
		return nil, err
	}
	s.progress.Done(fmt.Sprintf("make %d Networks where OVN runs", s.o.networks))
	return other.out.Census, nil
}

// carry measures how long OVN takes with the Networks that were made last: northd with all of them, and ovn-controller
// with the first pod of the last, if it was made alone.
func (s *scale) carry(ctx context.Context, at *census, alone bool) error {
	var err error
	if at.NorthdSeconds, err = s.sync(ctx); err != nil {
		return err
	}
	if s.chassis == nil {
		if s.chassis, err = startChassis(ctx, s.Dir, s.Database.SBAddress()); err != nil {
			return err
		}
		// The first pod of all finds ovn-controller at its start.
		if _, err := s.bind(ctx, networkName(at.Networks-1)); err != nil {
			return err
		}
	}
	if alone {
		at.ControllerSeconds, err = s.bind(ctx, networkName(at.Networks-1))
	}
	return err
}

// sync is how long northd needs to carry what is in the northbound database to the southbound.
func (s *scale) sync(ctx context.Context) (float64, error) {
	start := time.Now()
	_, err := s.Database.NBCtl(ctx, "--timeout=300", "--wait=sb", "sync")
	return time.Since(start).Seconds(), err
}

// lastCensus counts the rows that are not pods' again, after pods of all nodes have come.
func (s *scale) lastCensus(ctx context.Context) error {
	rows, err := s.census(ctx)
	if err != nil {
		return err
	}
	pods, err := s.Kube.CoreV1().RESTClient().Get().Resource("pods").Param("limit", "1").
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("count pods: %w", err)
	}
	there, err := countOf(pods)
	if err != nil {
		return err
	}
	s.out.RowsBesidePods = rows - there
	return nil
}

// census counts the rows of the tables that we write.
func (s *scale) census(ctx context.Context) (int, error) {
	tables := map[string]model.Model{}
	for _, t := range nb.Tables() {
		tables[string(t.Table)] = t.New()
	}
	c, err := lab.Connect(ctx, s.Database.NBAddress(), tables)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	router, routerPort, sw, port := &nb.LogicalRouter{}, &nb.LogicalRouterPort{}, &nb.LogicalSwitch{}, &nb.LogicalSwitchPort{}
	if _, err := c.Monitor(ctx, c.NewMonitor(
		client.WithTable(router, &router.Name), client.WithTable(routerPort, &routerPort.Name),
		client.WithTable(sw, &sw.Name), client.WithTable(port, &port.Name),
	)); err != nil {
		return 0, fmt.Errorf("count rows: %w", err)
	}
	rows := 0
	for table := range tables {
		rows += len(c.Cache().Table(table).RowsShallow())
	}
	return rows, nil
}

// countOf reads how many objects there are from a list that was asked for with a limit.
func countOf(list []byte) (int, error) {
	var l struct {
		Metadata struct {
			Remaining int `json:"remainingItemCount"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &l); err != nil {
		return 0, fmt.Errorf("read list: %w", err)
	}
	return len(l.Items) + l.Metadata.Remaining, nil
}
