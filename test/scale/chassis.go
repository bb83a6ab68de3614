package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/sandbox/parts"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/ovn"
)

// chassisName is the node whose ovn-controller runs; the other nodes are names only.
const chassisName = "chassis"

// chassis is one node's Open vSwitch, on OVN's userspace datapath in a network namespace of its own, with a real
// ovn-controller.
type chassis struct {
	parts parts.OVN
	dir   string
	procs []*exec.Cmd
}

// startChassis starts the node's daemons; the southbound database has been filled by northd before.
func startChassis(ctx context.Context, dir, southbound string) (_ *chassis, err error) {
	found, err := parts.LocateOVN(os.Getenv(ovn.PrefixVariable))
	if err != nil {
		return nil, err
	}
	c := &chassis{parts: found, dir: filepath.Join(dir, chassisName)}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
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
	if _, err := c.vsctl(ctx, "--no-wait", "--", "init", "--", "add-br", "br-int",
		"--", "set", "Bridge", "br-int", "datapath_type="+ovn.UserspaceDatapath, "fail_mode=secure",
		"--", "set", "Open_vSwitch", ".",
		"external_ids:system-id="+chassisName, "external_ids:hostname="+chassisName,
		"external_ids:ovn-remote="+southbound, "external_ids:ovn-bridge-datapath-type="+ovn.UserspaceDatapath,
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=192.0.2.1"); err != nil {
		return nil, err
	}
	if err := c.start("ovs-vswitchd", syscall.CLONE_NEWNET, c.database(), "--disable-system"); err != nil {
		return nil, err
	}
	return c, c.start("ovn-controller", 0, c.database())
}

func (c *chassis) stop() {
	for _, p := range slices.Backward(c.procs) {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	c.procs = nil
}

func (c *chassis) path(name string) string { return filepath.Join(c.dir, name) }
func (c *chassis) database() string        { return "unix:" + c.path("db.sock") }

func (c *chassis) environment() []string {
	return append(os.Environ(), "OVS_RUNDIR="+c.dir, "OVN_RUNDIR="+c.dir, "OVS_LOGDIR="+c.dir, "OVN_LOGDIR="+c.dir)
}

func (c *chassis) start(program string, namespaces uintptr, args ...string) error {
	args = append(args, "--no-chdir", "-vconsole:off", "--unixctl="+c.path(program+".ctl"), "--log-file="+c.path(program+".log"))
	cmd := exec.Command(c.parts.Program(program), args...)
	cmd.Env = c.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: namespaces}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	c.procs = append(c.procs, cmd)
	return nil
}

func (c *chassis) await(ctx context.Context, socket string) error {
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, lab.Patience, true, func(context.Context) (bool, error) {
		_, err := os.Stat(c.path(socket))
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", socket, err)
	}
	return nil
}

func (c *chassis) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.parts.Program(program), args...)
	cmd.Env = c.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (c *chassis) vsctl(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, "ovs-vsctl", append([]string{"--db=" + c.database(), "--timeout=300"}, args...)...)
}

// bind is how long ovn-controller needs for the first pod of a Network on its node: from when the pod's interface is
// there until the flows for it are, while northd has done its part before. The pod goes again.
func (s *scale) bind(ctx context.Context, network string) (float64, error) {
	p := lab.Pod{Key: model.PodKey{Namespace: network, Name: "bound"}, Node: chassisName}
	if err := s.CreatePod(ctx, p); err != nil {
		return 0, fmt.Errorf("create pod: %w", err)
	}
	if err := s.Ports.Await(ctx, []string{p.Port()}, s.Ports.Seen, s.Controller.Done); err != nil {
		return 0, err
	}
	object, err := s.Kube.CoreV1().Pods(p.Key.Namespace).Get(ctx, p.Key.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("read pod: %w", err)
	}
	if _, err := s.sync(ctx); err != nil {
		return 0, err
	}
	const port = "bound"
	start := time.Now()
	if _, err := s.chassis.vsctl(ctx, "--no-wait", "add-port", "br-int", port, "--", "set", "Interface", port, "type=internal",
		fmt.Sprintf("external_ids:iface-id=%q", p.Port()), "external_ids:iface-id-ver="+string(object.UID)); err != nil {
		return 0, err
	}
	if _, err := s.chassis.vsctl(ctx, "wait-until", "Interface", port, "external_ids:ovn-installed=true"); err != nil {
		return 0, err
	}
	took := time.Since(start)
	_, err = s.chassis.vsctl(ctx, "del-port", "br-int", port)
	if err := errors.Join(err, s.DeletePod(ctx, p.Key)); err != nil {
		return 0, err
	}
	return took.Seconds(), s.Ports.Await(ctx, []string{p.Port()}, s.Ports.Gone, s.Controller.Done)
}
