package kube

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

func feedCounter(to prometheus.Registerer) (*prometheus.CounterVec, error) {
	return register(to, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "atoll_kube_events_total",
		Help: "Objects received from the API server, by kind.",
	}, []string{"kind"}))
}

func writeCounter(to prometheus.Registerer) (*prometheus.CounterVec, error) {
	return register(to, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "atoll_kube_writes_total",
		Help: "Writes to the API server, by what was written and how it ended: done, gone (the object is), refused (for good, until the object " +
			"changes) or failed (and tried again).",
	}, []string{"kind", "result"}))
}

func register(to prometheus.Registerer, c *prometheus.CounterVec) (*prometheus.CounterVec, error) {
	if to == nil {
		return c, nil
	}
	if err := to.Register(c); err != nil {
		// A process may have one Feed and Writer after another. They count on.
		if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			if old, same := there.ExistingCollector.(*prometheus.CounterVec); same {
				return old, nil
			}
		}
		return nil, fmt.Errorf("register metric: %w", err)
	}
	return c, nil
}
