package main

import (
	"context"
	"encoding/json"
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
	start, made := time.Now(), 0
	for _, upTo := range []int{1, s.o.networks/2 - 1, s.o.networks / 2, s.o.networks - 1, s.o.networks} {
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
			if at.NorthdSeconds, err = s.sync(ctx); err != nil {
				return err
			}
		}
		s.out.Census = append(s.out.Census, at)
		s.progress.Say("%d Networks, %d rows, northd %.2f s", made, rows, at.NorthdSeconds)
	}
	s.out.NetworksSeconds = time.Since(start).Seconds()
	return s.settle(ctx)
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
