package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"

	"github.com/atoll-net/atoll/pkg/process/child"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// ChassisOptions describe a node.
type ChassisOptions struct {
	// Dir holds its database, sockets and logs; it must exist and its path be short enough for a socket's.
	Dir string
	// Name is how the northbound database calls it (requested-chassis).
	Name string
	// Southbound is the address of the southbound database, which northd has filled before.
	Southbound string
	// Certificates are ovn-controller's arguments for its certificate; none where Southbound is a socket.
	Certificates []string
	// Datapath is the datapath_type of its bridge.
	Datapath string
	// Tunnel is the node's address on the cable to another node (Link); nodes without a cable need none.
	Tunnel netip.Addr
}

// Chassis is one node's Open vSwitch, in a network namespace of its own, with a real ovn-controller. Nothing leaves it
// but by a cable to another node (Link).
type Chassis struct {
	options ChassisOptions
	parts   parts.OVN
	procs   []*child.Child
	// inside is the namespace of ovs-vswitchd.
	inside netns.NsHandle
	guests []*Guest
	ports  int
}

// StartChassis starts a node's daemons. They end with Stop, and with this process at the latest.
func StartChassis(ctx context.Context, o ChassisOptions) (_ *Chassis, err error) {
	found, err := parts.LocateOVN(os.Getenv(PrefixVariable))
	if err != nil {
		return nil, err
	}
	c := &Chassis{options: o, parts: found, inside: netns.None()}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if !c.options.Tunnel.IsValid() {
		c.options.Tunnel = netip.MustParseAddr("192.0.2.1")
	}
	if _, err := c.run(ctx, "ovsdb-tool", "create", c.path("conf.db"), found.SwitchSchema); err != nil {
		return nil, err
	}
	if err := c.start("ovsdb-server", 0, "--remote=p"+c.database(), c.path("conf.db")); err != nil {
		return nil, err
	}
	if err := c.await(ctx, "db.sock"); err != nil {
		return nil, err
	}
	// The bridge is as ovn-controller makes it.
	if _, err := c.VSCtl(ctx, "--no-wait", "--", "init", "--", "add-br", "br-int",
		"--", "set", "Bridge", "br-int", "datapath_type="+o.Datapath, "fail_mode=secure",
		"--", "set", "Open_vSwitch", ".",
		"external_ids:system-id="+o.Name, "external_ids:hostname="+o.Name,
		"external_ids:ovn-remote="+o.Southbound, "external_ids:ovn-bridge-datapath-type="+o.Datapath,
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip="+c.options.Tunnel.String()); err != nil {
		return nil, err
	}
	arguments := []string{c.database()}
	if o.Datapath == UserspaceDatapath {
		arguments = append(arguments, "--disable-system")
	}
	if err := c.start("ovs-vswitchd", syscall.CLONE_NEWNET, arguments...); err != nil {
		return nil, err
	}
	if c.inside, err = netns.GetFromPid(c.procs[len(c.procs)-1].PID()); err != nil {
		return nil, fmt.Errorf("open network namespace of the node: %w", err)
	}
	return c, c.start("ovn-controller", 0, append(slices.Clone(o.Certificates), c.database())...)
}

// Adopt is a node whose daemons somebody else runs: ovs-vswitchd in the namespace inside, which the node takes over, and all with
// their sockets in the directory.
func Adopt(o ChassisOptions, inside netns.NsHandle) (*Chassis, error) {
	found, err := parts.LocateOVN(os.Getenv(PrefixVariable))
	return &Chassis{options: o, parts: found, inside: inside}, err
}

// Stop ends everything, its guests' namespaces too.
func (c *Chassis) Stop() {
	for _, p := range slices.Backward(c.procs) {
		p.Kill()
	}
	for _, g := range c.guests {
		_ = g.netns.Close()
	}
	if c.inside.IsOpen() {
		_ = c.inside.Close()
	}
	c.procs, c.guests = nil, nil
}

// Do calls f on a thread that is in the node's network namespace.
func (c *Chassis) Do(f func() error) error { return inNamespace(c.inside, f) }

// VSCtl runs ovs-vsctl on the node's database and returns what it prints.
func (c *Chassis) VSCtl(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, "ovs-vsctl", append([]string{"--db=" + c.database(), "--timeout=300"}, args...)...)
}

// OFCtl runs ovs-ofctl, to which bridges of the node are known by their names, and returns what it prints.
func (c *Chassis) OFCtl(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, "ovs-ofctl", args...)
}

// Ask sends a command to a daemon of the node (ovs-appctl(8)) and returns what it prints.
func (c *Chassis) Ask(ctx context.Context, daemon string, args ...string) (string, error) {
	return c.run(ctx, "ovs-appctl", append([]string{"-t", c.path(daemon + ".ctl")}, args...)...)
}

// PID is the process of one of the node's daemons; 0 when it does not run.
func (c *Chassis) PID(daemon string) int {
	for _, p := range c.procs {
		if filepath.Base(p.Path()) == daemon {
			return p.PID()
		}
	}
	return 0
}

func (c *Chassis) path(name string) string { return filepath.Join(c.options.Dir, name) }
func (c *Chassis) database() string        { return "unix:" + c.path("db.sock") }

func (c *Chassis) environment() []string {
	d := c.options.Dir
	return append(os.Environ(), "OVS_RUNDIR="+d, "OVN_RUNDIR="+d, "OVS_LOGDIR="+d, "OVN_LOGDIR="+d)
}

func (c *Chassis) start(program string, namespaces uintptr, args ...string) error {
	args = append(args, "--no-chdir", "-vconsole:off", "--unixctl="+c.path(program+".ctl"), "--log-file="+c.path(program+".log"))
	cmd := exec.Command(c.parts.Program(program), args...)
	cmd.Env = c.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	daemon, err := child.Start(cmd)
	if err == nil {
		c.procs = append(c.procs, daemon)
	}
	return err
}

// await waits until somebody listens.
func (c *Chassis) await(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", c.path(socket))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", socket, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func (c *Chassis) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.parts.Program(program), args...)
	cmd.Env = c.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
