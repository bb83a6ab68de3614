package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/atoll-net/atoll/pkg/openflow"
	"github.com/atoll-net/atoll/pkg/vswitch"
)

// throttle is how ovn-controller is kept from drowning in the questions of one pod.
type throttle struct {
	// dir is Open vSwitch's directory, bridge that which OVN uses.
	dir, bridge string
	// rate is how many packets a second ovn-controller is given; 0 leaves, or makes, it as if we were not there.
	rate int
}

func newThrottle(config Config) throttle {
	return throttle{dir: filepath.Dir(bridgeSocket(config.OVSDB, config.Bridge)), bridge: config.Bridge, rate: config.ControllerRate}
}

// keepThrottle has ovn-controller come by the socket that gives it no more than it can do, and takes turns among ports. It is sent there only while
// somebody answers there: without the bridge it could do nothing.
func (a *Agent) keepThrottle(ctx context.Context) error {
	t := a.throttle
	if t.rate == 0 {
		return a.ovs.Unthrottle(ctx, t.dir)
	}
	if err := a.ovs.Throttle(ctx, t.dir, t.rate); err != nil {
		return err
	}
	door, err := openflow.Dial(ctx, vswitch.Door(t.dir, t.bridge))
	if err != nil {
		return errors.Join(fmt.Errorf("bound what ovn-controller is asked; see ovs-vswitchd's log: %w", err), a.ovs.Unusher(ctx))
	}
	door.Close()
	return a.ovs.Usher(ctx)
}
