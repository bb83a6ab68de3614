package agent

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/ovs/openflow"
)

const (
	// sentryEvery is how long a flow of ours may be missing: ovn-controller removes all flows that it finds when it starts, and
	// ovs-vswitchd starts without any.
	sentryEvery = 500 * time.Millisecond
	// sentryCookie is no logical flow's: those have 32 bits. (ovn-architecture(7).)
	sentryCookie = 0x61746f6c6c << 24
	// sentryPriority is above all that ovn-controller has in the first table.
	sentryPriority = 60000
	// routerAdvertisement is of RFC 4861.
	routerAdvertisement = 134
)

// sentry keeps a flow on the bridge by which the node takes no router advertisement from anybody: a pod, a machine in it, or another
// node. The controller's guard drops all else that is forged, but this it cannot: OVN lets it pass all access lists of a switch that has
// a load balancer. No router of ours advertises anything. (ovn-northd(8), Ingress Table: from-lport ACL evaluation.)
type sentry struct {
	socket string
	log    *slog.Logger
	conn   *openflow.Conn
	// said is the last reason that was logged; empty when all is well.
	said string
}

// serve looks after the flow until ctx ends.
func (s *sentry) serve(ctx context.Context) error {
	defer s.hangUp()
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) { s.complain(s.look(ctx)) }, sentryEvery)
	return nil
}

// look adds the flow if it is not there. Bridges come and go; it is asked again.
func (s *sentry) look(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			s.hangUp()
		}
	}()
	if s.conn == nil {
		if s.conn, err = openflow.Dial(ctx, s.socket); err != nil {
			return err
		}
	}
	counts, err := s.conn.Counts(ctx, []openflow.Selection{{Cookie: sentryCookie, Table: 0}})
	if err != nil || counts[0].Flows > 0 {
		return err
	}
	return s.conn.Drop(ctx, openflow.Drop{Cookie: sentryCookie, Priority: sentryPriority, ICMPv6Type: routerAdvertisement})
}

func (s *sentry) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// complain logs why the flow cannot be had, once for each reason.
func (s *sentry) complain(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != "" && reason != s.said {
		s.log.Warn("router advertisements of pods not dropped yet", "error", err)
	}
	s.said = reason
}
