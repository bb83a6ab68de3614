package southbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube/certs"
)

// lookEvery is how often members' certificates are looked at, and lookSoon while there is none. lookTime bounds one look.
const (
	lookEvery = time.Minute
	lookSoon  = 10 * time.Second
	lookTime  = 10 * time.Second
)

// Certificates reports when the certificates end that the databases' servers show. It is a prometheus.Collector, and knows
// certificates only while it runs.
type Certificates struct {
	Records central.Store
	// TLS is how servers are reached. It is asked for each connection.
	TLS *tls.Config
	Log *slog.Logger

	mu sync.Mutex
	// ends has the end of the one of a name that ends first.
	ends map[string]time.Time
}

// Describe is prometheus.Collector's. It names nothing: others tell of their own certificates by the same metric.
func (c *Certificates) Describe(chan<- *prometheus.Desc) {}

// Collect is prometheus.Collector's.
func (c *Certificates) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, end := range c.ends {
		to <- certs.Expiry(name, end)
	}
}

// Run looks again and again until ctx ends.
func (c *Certificates) Run(ctx context.Context) {
	defer c.set(nil) // Whoever leads then tells of them.
	for {
		ends := c.look(ctx)
		c.set(ends)
		pause := lookEvery
		if len(ends) == 0 {
			pause = lookSoon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (c *Certificates) set(ends map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = ends
}

func (c *Certificates) look(ctx context.Context) map[string]time.Time {
	ends := map[string]time.Time{}
	records, err := c.Records.Records(ctx)
	if err != nil {
		c.Log.Info("certificates of members are not looked at", "error", err)
		return ends
	}
	for _, port := range []struct {
		kind   central.Kind
		number uint16
	}{{central.Northbound, central.Northbound.ClientPort()}, {central.Southbound, central.FullPort}} {
		for _, address := range records[port.kind].Addresses() {
			name, end, err := shown(ctx, c.TLS, netip.AddrPortFrom(address, port.number))
			if name == "" {
				c.Log.Debug("no certificate is shown", "error", err)
				continue
			}
			if before, known := ends[name]; !known || end.Before(before) {
				ends[name] = end
			}
		}
	}
	return ends
}

// shown is the certificate of a server: also of one that is not to be trusted, because it has ended.
func shown(ctx context.Context, config *tls.Config, server netip.AddrPort) (name string, end time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	config = config.Clone()
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		leaf := state.PeerCertificates[0]
		name, end = leaf.Subject.CommonName, leaf.NotAfter
		return verify(state)
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", server.String())
	if err != nil {
		return name, end, fmt.Errorf("look at the certificate of %s: %w", server, err)
	}
	return name, end, conn.Close()
}
