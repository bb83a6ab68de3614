package agent

import (
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// The phases of an ADD.
const (
	// phaseAttachment: waiting for the controller's decision.
	phaseAttachment = "attachment"
	// phasePorthole: making the porthole, or the pod's place in it, until names are answered there.
	phasePorthole = "porthole"
	// phaseLink: making the veth pair.
	phaseLink = "link"
	// phasePort: the transaction with Open vSwitch.
	phasePort = "port"
	// phaseInstalled: waiting for OVN's flows for the port.
	phaseInstalled = "installed"
	// phaseAnswered: waiting for the first answer of the Network's router.
	phaseAnswered = "answered"
)

// phases are those of an ADD in their order.
func phases() []string {
	return []string{phaseAttachment, phasePorthole, phaseLink, phasePort, phaseInstalled, phaseAnswered}
}

// What sweeps and garbage collections repair.
const (
	// sweptPort: a port of a pod that has gone.
	sweptPort = "port"
	// sweptLink: a link of a pod that has gone.
	sweptLink = "link"
	// sweptLostPort: a port of a living pod, which the database had lost.
	sweptLostPort = "lost port"
	// sweptChangedPort: a port of a living pod that said something else than it should.
	sweptChangedPort = "changed port"
	// sweptBounds: what a pod may send, which was not bounded as it should be.
	sweptBounds = "bounds"
	// sweptCollected: what the container runtime asked to be removed.
	sweptCollected = "gc"
)

func sweptThings() []string {
	return []string{sweptPort, sweptLink, sweptLostPort, sweptChangedPort, sweptBounds, sweptCollected, portholes.Swept, portholes.SweptLoss}
}

// What became of a repair.
const repaired, failedRepair = "repaired", "failed"

type metrics struct {
	phases    *prometheus.HistogramVec
	adds      prometheus.Histogram
	portholes *portholes.Metrics
	requests  *prometheus.CounterVec
	sweeps    *prometheus.CounterVec
	watches   *prometheus.CounterVec
	nameless  prometheus.Counter
	dropped   *prometheus.CounterVec
	unbounded prometheus.Gauge
	crowded   *prometheus.GaugeVec
	// progress is of the phases of ADDs.
	progress *progress
}

// newMetrics registers the agent's metrics.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	ofPortholes, err := portholes.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	m := &metrics{
		progress:  newProgress(),
		portholes: ofPortholes,
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "atoll_agent_add_phase_seconds",
			Help:    "How long each phase of successful and failed ADDs took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 17),
		}, []string{"phase"}),
		adds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "atoll_agent_add_seconds",
			Help:    "How long successful ADDs took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 17),
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_agent_requests_total",
			Help: "CNI requests by command and the CNI error code of the answer (0: success).",
		}, []string{"command", "code"}),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_agent_swept_total",
			Help: "What sweeps and garbage collections repaired.",
		}, []string{"what", "result"}),
		watches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_agent_watch_errors_total",
			Help: "How often a watch of the API server's objects failed.",
		}, []string{"of"}),
		nameless: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "atoll_agent_nameless_total",
			Help: "Pods that started before anybody answered for names in their Network.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_agent_dropped_packets_total",
			Help: "Packets of this node's pods that were more than a pod may send: broadcast, request, or packet for all of them.",
		}, []string{"bound"}),
		unbounded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "atoll_agent_unbounded_interfaces",
			Help: "Interfaces of this node's pods that may send as much as they can, since they could not be bounded.",
		}),
		crowded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "atoll_agent_crowded_pods",
			Help: "Pods of this node that have as many connections as they may: inside their Network, and, refused within the last minute, past it.",
		}, []string{"where"}),
	}
	for _, c := range []prometheus.Collector{
		m.phases, m.adds, m.requests, m.sweeps, m.watches, m.nameless, m.dropped, m.unbounded, m.crowded,
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	// From 0, so that there is a sample before the first one, and the first one is seen as an increase.
	for _, phase := range phases() {
		m.phases.WithLabelValues(phase)
	}
	for _, bound := range []netdev.Bound{netdev.BoundBroadcasts, netdev.BoundRequests, netdev.BoundPackets} {
		m.dropped.WithLabelValues(string(bound))
	}
	for _, where := range []string{crowdInside, crowdPast} {
		m.crowded.WithLabelValues(where)
	}
	for _, what := range sweptThings() {
		m.sweeps.WithLabelValues(what, repaired)
		m.sweeps.WithLabelValues(what, failedRepair)
	}
	m.requests.WithLabelValues(string(cni.Add), strconv.FormatUint(uint64(types.ErrTryAgainLater), 10))
	return m, nil
}

// gauge registers a 0 or 1 that is asked for when it is read.
func gauge(registry prometheus.Registerer, name, help string, value func() bool) error {
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		if value() {
			return 1
		}
		return 0
	}))
}

// count records the end of a request.
func (m *metrics) count(command cni.Command, err error) {
	code := uint(0)
	var known *types.Error
	switch {
	case errors.As(err, &known):
		code = known.Code
	case err != nil:
		code = types.ErrTryAgainLater
	}
	m.requests.WithLabelValues(string(command), strconv.FormatUint(uint64(code), 10)).Inc()
}

func (m *metrics) swept(what string, err error) {
	result := repaired
	if err != nil {
		result = failedRepair
	}
	m.sweeps.WithLabelValues(what, result).Inc()
}

// addWatch measures one ADD. It belongs to one goroutine, but for now.
type addWatch struct {
	m       *metrics
	started time.Time
	current atomic.Pointer[stage]
}

// stage is where an ADD is: in which phase, and since when.
type stage struct {
	phase string
	since time.Time
}

func (m *metrics) watchAdd() *addWatch {
	w := &addWatch{m: m, started: time.Now()}
	w.current.Store(&stage{phases()[0], w.started})
	return w
}

// now is where the ADD is; anybody may ask.
func (w *addWatch) now() stage { return *w.current.Load() }

// phase ends the current phase under a name; the next begins.
func (w *addWatch) phase(name string) {
	now := time.Now()
	w.m.phases.WithLabelValues(name).Observe(now.Sub(w.now().since).Seconds())
	w.m.progress.passed(name, now)
	order := phases()
	w.current.Store(&stage{order[min(slices.Index(order, name)+1, len(order)-1)], now})
}

func (w *addWatch) done(err error) {
	if err == nil {
		w.m.adds.Observe(time.Since(w.started).Seconds())
	}
	w.m.count(cni.Add, err)
}
