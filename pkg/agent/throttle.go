package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/atoll-net/atoll/pkg/ovs/openflow"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// throttle is how ovn-controller is kept from drowning in the questions of one pod.
type throttle struct {
	// dir is Open vSwitch's directory, bridge that which OVN uses, own the bridge's own socket.
	dir, bridge, own string
	// rate is how many packets a second ovn-controller is given; 0 leaves, or makes, it as if we were not there.
	rate int
}

func newThrottle(config Config) throttle {
	own := bridgeSocket(config.OVSDB, config.Bridge)
	return throttle{dir: filepath.Dir(own), bridge: config.Bridge, own: own, rate: config.ControllerRate}
}

// keepThrottle has ovn-controller come by the socket that gives it no more than it can do, and takes turns among ports. It is
// sent there only while somebody answers there: without the bridge it could do nothing. But while the switch is replaced nobody
// answers anywhere: ovn-controller stays where it is. Were it sent away, the next switch would start without the flows that the
// last one has saved (pkg/daemons/chassis), and drop everything until ovn-controller has written them again.
func (a *Agent) keepThrottle(ctx context.Context) error {
	t := a.throttle
	if t.rate == 0 {
		return a.ovs.Unthrottle(ctx, t.dir)
	}
	if err := a.ovs.Throttle(ctx, t.dir, t.rate); err != nil {
		return err
	}
	door := vswitch.Door(t.dir, t.bridge)
	closed := reachSocket(ctx, door)
	if closed != nil {
		if err := reachSocket(ctx, t.own); err != nil {
			return fmt.Errorf("bound what ovn-controller is asked: the switch is away: %w", err)
		}
		if err := a.ovs.Settled(ctx); err != nil {
			return fmt.Errorf("bound what ovn-controller is asked: the switch has just started: %w", err)
		}
		closed = reachSocket(ctx, door)
	}
	if closed != nil {
		return errors.Join(fmt.Errorf("bound what ovn-controller is asked; see ovs-vswitchd's log: %w", closed), a.ovs.Unusher(ctx))
	}
	return a.ovs.Usher(ctx)
}

// reachSocket is an error where no bridge answers at a socket.
func reachSocket(ctx context.Context, socket string) error {
	conn, err := openflow.Dial(ctx, socket)
	if err == nil {
		conn.Close()
	}
	return err
}
