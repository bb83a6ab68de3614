package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

// creators is how many pods are made at once, unless they are made at a steady pace.
const creators = 32

// subnets are those of every Network: all have the same addresses.
func subnets() []v1alpha1.Subnet {
	return []v1alpha1.Subnet{
		{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/20"}},
		{Name: "b", CIDRs: []v1alpha1.CIDR{"10.0.16.0/20"}},
	}
}

func networkName(i int) string { return fmt.Sprintf("net-%04d", i) }

// next describes the next so many pods. They go round the Networks, and in each round the subnets.
func (s *scale) next(n int) []lab.Pod {
	pods := make([]lab.Pod, n)
	for i := range pods {
		round, network := s.made/s.o.networks, networkName(s.made%s.o.networks)
		pods[i] = lab.Pod{
			Key:  model.PodKey{Namespace: network, Name: fmt.Sprintf("pod-%06d", s.made)},
			Node: fmt.Sprintf("node-%03d", s.made%s.o.nodes),
		}
		if round%2 == 1 {
			pods[i].Subnet = "b"
		}
		s.made++
	}
	return pods
}

func portsOf(pods []lab.Pod) []string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Port()
	}
	return names
}

// create makes pods and waits for no row; it returns when each was sent, and how long the API server took to answer.
func (s *scale) create(ctx context.Context, pods []lab.Pod, load lab.Load) (sent []time.Time, answered []time.Duration, err error) {
	sent, answered = make([]time.Time, len(pods)), make([]time.Duration, len(pods))
	load.Count = len(pods)
	err = load.Run(ctx, func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		err := s.CreatePod(ctx, pods[i])
		answered[i] = time.Since(sent[i])
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("create pods: %w", err)
	}
	return sent, answered, nil
}

// apply makes the next pods and measures, for each, the time from when its creation was sent to the API server
// until its row was seen in the database.
func (s *scale) apply(ctx context.Context, n int, load lab.Load) (series, error) {
	meter, err := lab.StartMeter()
	if err != nil {
		return series{}, err
	}
	pods := s.next(n)
	sent, answered, err := s.create(ctx, pods, load)
	if err != nil {
		return series{}, err
	}
	ports := portsOf(pods)
	took, err := s.waited(ctx, ports, s.Ports.Seen, sent)
	if err != nil {
		return series{}, err
	}
	others, err := meter.Others()
	if err != nil {
		return series{}, err
	}
	_, last := s.span(ports)
	out := newSeries(took, last.Sub(slices.MinFunc(sent, time.Time.Compare)), others)
	slices.Sort(answered)
	out.API50, out.API99 = lab.Percentile(answered, 50), lab.Percentile(answered, 99)
	return out, nil
}

// span is when the first and the last of some ports that are there came.
func (s *scale) span(ports []string) (first, last time.Time) {
	for _, name := range ports {
		at, _ := s.Ports.Seen(name)
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}

// fill makes pods until so many have been made, and keeps the rate at which their rows came.
func (s *scale) fill(ctx context.Context, upTo int) error {
	const step = 1000
	for s.made < upTo {
		n := min(step, upTo-s.made)
		ports := s.made
		got, err := s.apply(ctx, n, lab.Load{Workers: creators})
		if err != nil {
			return fmt.Errorf("fill to %d pods: %w", upTo, err)
		}
		s.out.Fill = append(s.out.Fill, point{Ports: ports + n/2, PodsPerSecond: got.PodsPerSecond})
		s.progress.Say("%d of %d pods, %.0f pods/s", s.made, upTo, got.PodsPerSecond)
	}
	return s.settle(ctx)
}
