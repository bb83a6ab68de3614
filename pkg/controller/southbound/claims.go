package southbound

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

const (
	// connectAgain is the pause before the database is connected to again.
	connectAgain = time.Second
	// lookAgain is how often ports are looked at, whether or not anything has changed.
	lookAgain = 30 * time.Second
	// endsAgain is how often tunnel ends are looked at: Nodes change, too. When chassis change they are looked at at once, but no sooner
	// than endsPause after
	// the last time, since a look costs as much as there are nodes.
	endsAgain = 5 * time.Second
	endsPause = time.Second
	// settle is how long a node must have had its addresses.
	settle = 10 * time.Second
	// claimsTime bounds one look and what follows from it.
	claimsTime = 30 * time.Second
	// sayAgain is how long the log says no more of a chassis. Whoever has a node can repeat what they do at any pace.
	sayAgain = time.Minute
)

// ClaimMetrics count what nodes claim in the southbound database and are not given.
type ClaimMetrics struct {
	further, deleted *prometheus.CounterVec
	doubtful         *prometheus.GaugeVec
}

// NewClaimMetrics makes metrics and registers them.
func NewClaimMetrics(registry prometheus.Registerer) *ClaimMetrics {
	m := &ClaimMetrics{
		further: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_southbound_further_chassis_total",
			Help: "Claims that a port is on this chassis as well (additional_chassis), which nobody asked for and which were taken back.",
		}, []string{"chassis"}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atoll_southbound_false_chassis_total",
			Help: "Chassis that were deleted because they had an address or a host name of another node.",
		}, []string{"chassis"}),
		doubtful: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "atoll_southbound_doubtful_chassis",
			Help: "Chassis with a tunnel end at an address that another node claims, too, as the leader looked last.",
		}, []string{"chassis"}),
	}
	registry.MustRegister(m.further, m.deleted, m.doubtful)
	return m
}

// begin makes a sample of each chassis before anything is counted, because Prometheus sees no increase in the first value of a
// counter.
func (m *ClaimMetrics) begin(chassis []ovsdb.TunnelEnds) {
	m.doubtful.Reset()
	for _, c := range chassis {
		m.further.WithLabelValues(c.Name)
		m.deleted.WithLabelValues(c.Name)
		m.doubtful.WithLabelValues(c.Name).Set(0)
	}
}

// Claims takes back what a node claims by OVN's role that Atoll has not given it. It watches the southbound database, and acts at once.
// The database must be Atoll's alone.
type Claims struct {
	Kube kubernetes.Interface
	// Southbound is reached with all rights.
	Southbound ovsdb.Config
	// Machines are the Nodes of the cluster and what their agents report, by name; false until all of both is known.
	Machines func() (map[string]*model.Node, map[string]*model.NodeReport, bool)
	// Settle is how long a node must have had its addresses until they count; 0 is 10 seconds.
	Settle  time.Duration
	Metrics *ClaimMetrics
	Log     *slog.Logger

	ends ends

	// said is when the log said something last, by what it says and of which chassis.
	said map[saying]time.Time
}

// saying is what the log says of a chassis.
type saying struct{ what, chassis string }

// Run watches until ctx ends. A connection that ends is made anew.
func (c *Claims) Run(ctx context.Context) {
	c.said = map[saying]time.Time{}
	if c.Settle == 0 {
		c.Settle = settle
	}
	c.ends = ends{settle: c.Settle, had: map[string]addresses{}}
	defer c.Metrics.doubtful.Reset() // Whoever leads then tells of them.
	problem := ""
	for ctx.Err() == nil {
		if err := c.watch(ctx); err != nil && ctx.Err() == nil && err.Error() != problem {
			problem = err.Error()
			c.Log.Warn("what nodes claim in the southbound database is not watched; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(connectAgain):
		}
	}
}

// watch returns nil when ctx has ended.
func (c *Claims) watch(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, claimsTime)
	session, err := ovsdb.OpenClaims(opening, c.Southbound)
	cancel()
	if err != nil {
		return err
	}
	defer session.Close()
	tick, again, pause := time.NewTicker(lookAgain), time.NewTicker(endsAgain), time.NewTimer(endsPause)
	defer tick.Stop()
	defer again.Stop()
	defer pause.Stop()
	changed := session.Ends()
	for {
		look := c.takeBack
		select {
		case <-ctx.Done():
			return nil
		case <-session.Done():
			return fmt.Errorf("watch what nodes claim: %w", ovsdb.ErrClosed)
		case <-session.Ports():
		case <-tick.C:
		case <-pause.C:
			changed = session.Ends()
			continue
		case <-changed:
			changed, look = nil, c.judge
			pause.Reset(endsPause)
		case <-again.C:
			look = c.judge
		}
		if err := look(ctx, session); err != nil {
			return err
		}
	}
}

// takeBack takes ports from further chassis.
func (c *Claims) takeBack(ctx context.Context, session *ovsdb.Claims) error {
	ctx, cancel := context.WithTimeout(ctx, claimsTime)
	defer cancel()
	taken, err := session.TakeBack(ctx)
	if err != nil {
		return err
	}
	ports, example := map[string]int{}, map[string]string{}
	for _, claim := range taken {
		for _, name := range claim.Chassis {
			ports[name]++
			example[name] = claim.Port
		}
	}
	for name, n := range ports {
		c.Metrics.further.WithLabelValues(name).Add(float64(n))
		if c.says(saying{"further chassis", name}, time.Now()) {
			c.Log.Warn("ports were claimed for a chassis on which nobody asked for them: they are taken back",
				"chassis", name, "ports", n, "one", example[name])
		}
	}
	return nil
}

// says reports whether the log is to say it now.
func (c *Claims) says(what saying, now time.Time) bool {
	if last, known := c.said[what]; known && now.Sub(last) < sayAgain {
		return false
	}
	c.said[what] = now
	return true
}
