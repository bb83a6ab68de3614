package agent

import (
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/cni"
	"github.com/atoll-net/atoll/pkg/porthole"
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

// The steps of making a porthole that are not the keeper's.
const (
	// stepPort is the transaction with Open vSwitch.
	stepPort porthole.Step = "port"
	// stepNames has the DNS program open its sockets.
	stepNames porthole.Step = "names"
)

// What was done to a porthole.
const (
	// portholeMade: there was none.
	portholeMade = "made"
	// portholePods: a pod came to it or left it.
	portholePods = "pods"
	// portholeRemoved: its last pod has gone.
	portholeRemoved = "removed"
)

type metrics struct {
	phases    *prometheus.HistogramVec
	adds      prometheus.Histogram
	portholes *prometheus.HistogramVec
	steps     *prometheus.HistogramVec
	waits     prometheus.Histogram
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
	m := &metrics{
		progress: newProgress(),
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
		portholes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "atoll_agent_porthole_seconds",
			Help:    "How long it took to make a porthole, to change its pods, and to remove it, with its port on the bridge.",
			Buckets: prometheus.ExponentialBuckets(0.002, 1.5, 24),
		}, []string{"change"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "atoll_agent_porthole_step_seconds",
			Help:    "How long each step took of portholes that were made.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"step"}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "atoll_agent_porthole_wait_seconds",
			Help:    "How long portholes that were made had waited until those before were.",
			Buckets: prometheus.ExponentialBuckets(0.002, 1.5, 24),
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
	for _, c := range []prometheus.Collector{m.phases, m.adds, m.portholes, m.steps, m.waits, m.requests, m.sweeps, m.watches, m.nameless, m.dropped, m.unbounded, m.crowded} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
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

// porthole records what was done to a porthole since its turn came.
func (m *metrics) porthole(since time.Time, change string) {
	m.portholes.WithLabelValues(change).Observe(time.Since(since).Seconds())
}

// step records how long a step of making a porthole took.
func (m *metrics) step(step porthole.Step, took time.Duration) {
	m.steps.WithLabelValues(string(step)).Observe(took.Seconds())
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
	result := "repaired"
	if err != nil {
		result = "failed"
	}
	m.sweeps.WithLabelValues(what, result).Inc()
}

// addWatch measures one ADD. It belongs to one goroutine, but for now.
type addWatch struct {
	m       *metrics
	started time.Time
	at      atomic.Pointer[stage]
}

// stage is where an ADD is: in which phase, and since when.
type stage struct {
	phase string
	since time.Time
}

func (m *metrics) watchAdd() *addWatch {
	w := &addWatch{m: m, started: time.Now()}
	w.at.Store(&stage{phases()[0], w.started})
	return w
}

// now is where the ADD is; anybody may ask.
func (w *addWatch) now() stage { return *w.at.Load() }

// phase ends the current phase under a name; the next begins.
func (w *addWatch) phase(name string) {
	now := time.Now()
	w.m.phases.WithLabelValues(name).Observe(now.Sub(w.now().since).Seconds())
	w.m.progress.passed(name, now)
	order := phases()
	w.at.Store(&stage{order[min(slices.Index(order, name)+1, len(order)-1)], now})
}

func (w *addWatch) done(err error) {
	if err == nil {
		w.m.adds.Observe(time.Since(w.started).Seconds())
	}
	w.m.count(cni.Add, err)
}
