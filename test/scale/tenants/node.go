package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/ovn"
)

// controllerDaemon is the program whose memory and processor time a node costs.
const controllerDaemon = "ovn-controller"

// node is one on which OVN runs; all others are names only. Its pods are those that were plugged in.
type node struct {
	*ovn.Chassis
	name string
	pods int
}

// startNode starts a node's daemons.
func (m *measuring) startNode(ctx context.Context, name string) (*node, error) {
	dir := filepath.Join(m.Dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	c, err := ovn.StartChassis(ctx, ovn.ChassisOptions{
		Dir: dir, Name: name, Southbound: m.Database.SBAddress(), Datapath: ovn.UserspaceDatapath,
		Tunnel: netip.AddrFrom4([4]byte{192, 0, 2, byte(len(m.nodes) + 1)}),
	})
	if err != nil {
		return nil, fmt.Errorf("start node %s: %w", name, err)
	}
	n := &node{Chassis: c, name: name}
	m.nodes = append(m.nodes, n)
	return n, nil
}

// plug makes a pod on a node with OVN, and waits until the node has its flows.
func (m *measuring) plug(ctx context.Context, n *node, namespace string) error {
	p := lab.Pod{Key: model.PodKey{Namespace: namespace, Name: "plugged"}, Node: n.name}
	if err := m.CreatePod(ctx, p); err != nil {
		return fmt.Errorf("make pod: %w", err)
	}
	if err := m.Ports.Await(ctx, []string{p.Port()}, m.Ports.Seen, m.Controller.Done()); err != nil {
		return err
	}
	object, err := m.Kube.CoreV1().Pods(namespace).Get(ctx, p.Key.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read pod: %w", err)
	}
	n.pods++
	port := fmt.Sprintf("pod%d", n.pods)
	if _, err := n.VSCtl(ctx, "--no-wait", "add-port", "br-int", port, "--", "set", "Interface", port, "type=internal",
		fmt.Sprintf("external_ids:iface-id=%q", p.Port()), "external_ids:iface-id-ver="+string(object.UID)); err != nil {
		return err
	}
	_, err = n.VSCtl(ctx, "wait-until", "Interface", port, "external_ids:ovn-installed=true")
	return err
}

// carried waits until ovn-northd, and all nodes on which OVN runs, have done what is in the northbound database.
func (m *measuring) carried(ctx context.Context) error {
	_, err := m.Database.NBCtl(ctx, "--timeout=600", "--wait=hv", "sync")
	return err
}

// synced waits until ovn-northd has carried on what the northbound database has.
func (m *measuring) synced(ctx context.Context) error {
	_, err := m.Database.NBCtl(ctx, "--timeout=600", "--wait=sb", "sync")
	return err
}

// settle waits until ovn-controllers that have nothing to do have given back what they need no more: they do so after 30 s
// (memory-trim.c of OVN).
func (m *measuring) settle(ctx context.Context) error {
	if err := m.carried(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(m.o.settle)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spent is how much processor time a node's ovn-controller has used.
func (n *node) spent() (time.Duration, error) { return lab.FineCPUOf(n.PID(controllerDaemon)) }

// look reads what a node's ovn-controller holds.
func (n *node) look(ctx context.Context) (out nodeUse, err error) {
	if out.Memory, err = lab.MemoryOf(n.PID(controllerDaemon)); err != nil {
		return out, err
	}
	said, err := n.Ask(ctx, controllerDaemon, "memory/show")
	if err != nil {
		return out, err
	}
	if out.Cells, err = cells(said); err != nil {
		return out, err
	}
	flows, err := n.OFCtl(ctx, "-O", "OpenFlow15", "--no-stats", "dump-flows", "br-int")
	if err != nil {
		return out, err
	}
	out.Flows, out.Datapaths = countFlows(flows)
	return out, nil
}

// cells are the values of the southbound database of which ovn-controller has a copy, by what it says of its memory.
func cells(said string) (int, error) {
	for word := range strings.FieldsSeq(said) {
		if value, found := strings.CutPrefix(word, "idl-cells-OVN_Southbound:"); found {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("read memory of ovn-controller: it says nothing of the southbound database: %s", said)
}

// countFlows are the flows of a bridge, and the routers and switches of OVN that they are for.
func countFlows(said string) (flows, datapaths int) {
	of := map[string]bool{}
	for line := range strings.Lines(said) {
		if !strings.Contains(line, "actions=") {
			continue
		}
		flows++
		if _, rest, found := strings.Cut(line, "metadata="); found {
			datapath, _, _ := strings.Cut(rest, ",")
			datapath, _, _ = strings.Cut(datapath, " ")
			of[datapath] = true
		}
	}
	return flows, len(of)
}
