package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/sandbox"
)

// flows are the rows of OVN's table Logical_Flow.
type flows struct {
	// Networks and Pods are for how many they were counted, on three nodes.
	Networks int        `json:"networks"`
	Pods     int        `json:"pods"`
	With     flowCounts `json:"withFaces"`
	Without  flowCounts `json:"withoutFaces"`
}

// flowCounts are what each Network added without pods, all while only the first Network has pods, and all.
type flowCounts struct {
	PerNetwork float64 `json:"perNetwork"`
	Empty      int     `json:"empty"`
	Full       int     `json:"full"`
	// Dialled are those of Full that are there for pods which dial a face inside its own Network.
	Dialled int `json:"dialled"`
}

// Networks, and pods in each, of which flows are counted where no node runs.
const (
	flowNetworks = 20
	flowPods     = 5
	flowNodes    = 3
)

// countFlows makes the same Networks, nodes and pods twice, in places of their own with a real northd: with faces and
// with none.
func countFlows(ctx context.Context, o options) (out flows, err error) {
	out.Networks, out.Pods = flowNetworks, flowNetworks*flowPods
	if out.With, err = countFlowsWith(ctx, o, `{}`); err != nil {
		return out, err
	}
	out.Without, err = countFlowsWith(ctx, o, `{"spec":{"faceCIDRs":[]}}`)
	return out, err
}

// countFlowsWith counts with what a merge patch makes of the sandbox's settings.
func countFlowsWith(ctx context.Context, o options, settings string) (out flowCounts, err error) {
	l, err := lab.Start(ctx, lab.Options{Controller: filepath.Join(o.sandbox.Bin, "atoll-controller"), Dist: o.dist, Northd: true})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	// Some of them cannot change any more once a controller has looked at them.
	if err := l.Configure(ctx, settings); err != nil {
		return out, err
	}
	if err := l.StartController(ctx, "--metrics-address="); err != nil {
		return out, err
	}
	pods := podsOfFlows()
	var names []string
	var networks []*v1alpha1.Network
	for n := range flowNetworks {
		names, networks = append(names, networkName(n)), append(networks, network(networkName(n)))
	}
	if err := l.CreateNamespaces(ctx, names...); err != nil {
		return out, err
	}
	// The nodes come with their first pods, which stay: those of the first Network.
	if err := l.CreateNetworks(ctx, networks[0]); err != nil {
		return out, err
	}
	if err := makePods(ctx, l, pods[:flowPods]); err != nil {
		return out, err
	}
	one, err := labFlows(ctx, l)
	if err != nil {
		return out, err
	}
	if err := l.CreateNetworks(ctx, networks[1:]...); err != nil {
		return out, err
	}
	if out.Empty, err = labFlows(ctx, l); err != nil {
		return out, err
	}
	out.PerNetwork = float64(out.Empty-one) / (flowNetworks - 1)
	if err := makePods(ctx, l, pods[flowPods:]); err != nil {
		return out, err
	}
	if out.Full, err = labFlows(ctx, l); err != nil {
		return out, err
	}
	left, err := flowsUndialled(ctx, l)
	out.Dialled = out.Full - left
	return out, err
}

// flowsUndialled ends the controller, empties the load balancers by which faces are dialled, and counts again.
func flowsUndialled(ctx context.Context, l *lab.Lab) (int, error) {
	l.Controller.End()
	text, err := l.Database.NBCtl(ctx, "--bare", "--columns=name", "list", "Load_Balancer")
	if err != nil {
		return 0, err
	}
	for name := range strings.FieldsSeq(text) {
		if !strings.Contains(name, ":faces:") {
			continue
		}
		if _, err := l.Database.NBCtl(ctx, "clear", "Load_Balancer", name, "vips"); err != nil {
			return 0, err
		}
	}
	return labFlows(ctx, l)
}

// perPod is what each pod added, without what it takes to dial its face.
func (c flowCounts) perPod() float64 {
	return float64(c.Full-c.Empty)/((flowNetworks-1)*flowPods) - c.dialled()
}

// dialled is what each pod's face takes to be dialled inside its Network.
func (c flowCounts) dialled() float64 { return float64(c.Dialled) / (flowNetworks * flowPods) }

func podsOfFlows() []lab.Pod {
	var out []lab.Pod
	for n := range flowNetworks {
		for j := range flowPods {
			out = append(out, lab.Pod{
				Key:  model.PodKey{Namespace: networkName(n), Name: fmt.Sprintf("pod-%d", j)},
				Node: fmt.Sprintf("node-%d", j%flowNodes),
			})
		}
	}
	return out
}

func makePods(ctx context.Context, l *lab.Lab, pods []lab.Pod) error {
	var ports []string
	for _, p := range pods {
		if err := l.CreatePod(ctx, p); err != nil {
			return fmt.Errorf("create pod %s: %w", p.Key, err)
		}
		ports = append(ports, p.Port())
	}
	return l.Ports.Await(ctx, ports, l.Ports.Seen, l.Controller.Done())
}

// labFlows counts the logical flows after northd has done its part.
func labFlows(ctx context.Context, l *lab.Lab) (int, error) {
	if _, err := l.Database.NBCtl(ctx, "--wait=sb", "sync"); err != nil {
		return 0, err
	}
	text, err := l.Database.SBCtl(ctx, listFlows...)
	return len(strings.Fields(text)), err
}

// listFlows are arguments of ovn-sbctl; it prints a word for each flow.
var listFlows = []string{"--bare", "--columns=_uuid", "list", "Logical_Flow"}

// flows counts the logical flows of the sandbox after northd has done its part.
func (c *cluster) flows(ctx context.Context) (int, error) {
	if _, err := c.Box.Exec(ctx, sandbox.Central, "ovn-nbctl", "--timeout=60", "--wait=sb", "sync"); err != nil {
		return 0, err
	}
	text, err := c.Box.Exec(ctx, sandbox.Central, append([]string{"ovn-sbctl", "--timeout=60"}, listFlows...)...)
	return len(strings.Fields(string(text))), err
}
