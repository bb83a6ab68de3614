package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
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
			s.chassis.Stop()
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
		there, err := s.readOwned(ctx)
		if err != nil {
			return err
		}
		rows := there.count()
		s.bare = there
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
