//go:build integration

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/process/wake"
	"github.com/atoll-net/atoll/test/wait"
)

// judged is a node with OVN, the agent, and a controller's engine whose cluster the test sets: its Networks are red and
// blue, with the same addresses.
type judged struct {
	decide.Discard
	*node
	agent *Agent
	world outside
	// names is the node's DNS program, for tests that start one.
	names *testNames
	// halt ends the engine: what the database has then stays as a test changes it.
	halt func()

	mu      sync.Mutex
	ready   wake.Signal
	changes model.Changes
	pods    map[model.PodKey]*model.Pod
	nodes   map[string]*model.Node
}

func newJudged(t *testing.T) *judged {
	t.Helper()
	j := &judged{
		node: newNode(t), ready: wake.NewSignal(), changes: model.NewChanges(),
		pods: map[model.PodKey]*model.Pod{}, nodes: map[string]*model.Node{},
	}
	j.startOVN()
	j.world = addOutside(t)
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	defaults := decide.Defaults{
		Network: "default", Subnet: netip.MustParsePrefix("10.128.0.0/14"), DNS: model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"},
		Services: testInfrastructure().Services, Faces: testInfrastructure().Faces,
	}
	engine := controller.New(controller.Config{
		Database: ovsdb.Config{Addresses: []string{"unix:" + filepath.Join(j.central, "ovn.sock")}, Log: log},
		Defaults: defaults, Source: j, Sink: j, Epoch: uuid.NewString(), Log: log, Metrics: controller.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	j.halt = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the engine ended: %v", err)
		}
	})
	t.Cleanup(j.halt)
	flat := &model.Network{
		Name: "default", UID: uidOf("default"), Type: model.Flat, Finalized: true,
		Subnets: []model.Subnet{
			{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/16"), netip.MustParsePrefix("fd00:128::/64")}},
		},
	}
	red, blue := vpc("red"), vpc("blue")
	red.Finalized, blue.Finalized = true, true
	self := &model.Node{
		Name: j.name, UID: "uid-" + j.name, Addresses: []netip.Addr{netip.MustParseAddr(testEncapIP), netip.MustParseAddr(j.world.nodeV4)},
	}
	j.change(func(c *model.Changes) {
		for _, n := range []*model.Network{flat, red, blue} {
			c.Networks[n.Name] = n
		}
		for _, name := range []string{"red", "blue"} {
			c.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
		}
		c.Namespaces["kube-system"] = &model.Namespace{
			Name: "kube-system", Labels: map[string]string{"kubernetes.io/metadata.name": "kube-system"},
		}
		c.Nodes[self.Name], j.nodes[self.Name] = self, self
	})
	given := await(t, func() *model.Node {
		j.mu.Lock()
		defer j.mu.Unlock()
		if n := j.nodes[j.name]; n.Assigned != nil && len(n.Assigned.Addresses) > 0 {
			return n
		}
		return nil
	})
	j.agent = j.node.agent()
	servers := []netip.AddrPort{netip.MustParseAddrPort(testEncapIP + ":6443"), netip.MustParseAddrPort("[" + j.world.nodeV6 + "]:6443")}
	j.agent.seesCluster(servers, []*model.Node{given}, red, blue)
	must(t, j.agent.sweep(t.Context()))
	t.Cleanup(func() { j.clearPortholes(j.agent) })
	return j
}

// await waits until what gives something.
func await[T any](t *testing.T, what func() *T) *T {
	t.Helper()
	var got *T
	wait.Until(t, wait.Patience, "waited for nothing", func() bool {
		got = what()
		return got != nil
	})
	return got
}

func (j *judged) change(f func(*model.Changes)) {
	j.mu.Lock()
	f(&j.changes)
	j.mu.Unlock()
	j.ready.Send()
}

func (j *judged) policy(p model.Policy) {
	j.change(func(c *model.Changes) { c.Policies[p.Key] = &p })
}

func (j *judged) withdraw(p model.Policy) {
	j.change(func(c *model.Changes) { c.Policies[p.Key] = nil })
}

// ask makes a pod of a Network with an address, any if it is empty, and a label, and waits for what the controller decides about it.
func (j *judged) ask(namespace, name, address, app string) *testPod {
	j.tb.Helper()
	t := j.tb.(*testing.T)
	p := &testPod{tb: t}
	p.request = cni.Request{
		Command:    cni.Add,
		Attachment: cni.Attachment{ContainerID: uuid.NewString(), Interface: "eth0"},
		Netns:      newNetns(t),
		Pod:        cni.PodRef{Namespace: namespace, Name: name, UID: uuid.NewString()},
	}
	key := p.request.Pod.Key()
	m := model.Pod{Key: key, UID: p.request.Pod.UID, Node: j.name, Created: time.Unix(1, 0), Labels: map[string]string{"app": app}}
	if address != "" {
		m.NIC.IP = netip.MustParseAddr(address)
	}
	j.change(func(c *model.Changes) { c.Pods[key], j.pods[key] = &m, &m })
	p.nic = await(t, func() *model.Pod {
		j.mu.Lock()
		defer j.mu.Unlock()
		if got := j.pods[key]; len(got.Assigned) > 0 {
			return got
		}
		return nil
	}).Assigned[0]
	p.publish(j.agent)
	return p
}

// pod makes a pod and plugs it in.
func (j *judged) pod(namespace, name, address, app string) *testPod {
	j.tb.Helper()
	p := j.ask(namespace, name, address, app)
	_, err := j.agent.Add(j.tb.Context(), p.request)
	must(j.tb, err)
	return p
}

// label gives a pod another label.
func (j *judged) label(p *testPod, app string) {
	key := p.request.Pod.Key()
	j.change(func(c *model.Changes) {
		changed := *j.pods[key]
		changed.Labels = map[string]string{"app": app}
		c.Pods[key], j.pods[key] = &changed, &changed
	})
}

// Ready implements decide.Source, as the next two do.
func (j *judged) Ready() <-chan struct{} { return j.ready }
func (j *judged) Synced() bool           { return true }

func (j *judged) Take() model.Changes {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.changes
	j.changes = model.NewChanges()
	return taken
}

// WriteAttachments implements decide.Sink, as all that follow.
func (j *judged) WriteAttachments(key model.PodKey, uid string, list []model.Attachment) {
	j.change(func(c *model.Changes) {
		if p := j.pods[key]; p != nil && p.UID == uid {
			changed := *p
			changed.Assigned = list
			c.Pods[key], j.pods[key] = &changed, &changed
		}
	})
}

func (j *judged) WriteNode(name, uid string, n model.NodeNetwork) {
	j.change(func(c *model.Changes) {
		if old := j.nodes[name]; old != nil && old.UID == uid {
			changed := *old
			changed.Assigned = &n
			c.Nodes[name], j.nodes[name] = &changed, &changed
		}
	})
}

func (j *judged) Event(about model.ObjectRef, p model.Problem) {
	if p.Reason == model.ReasonIsolationHard || p.Reason == model.ReasonIsolationSoft {
		// That is what a test asks for.
		return
	}
	j.tb.Errorf("the controller says of %s: %s: %s", about, p.Reason, p.Message)
}

// allowing is a NetworkPolicy by which the pods of a namespace with a label receive what others with a label send to ports
// between first and last, and nothing else.
func allowing(namespace, name, app, from string, first, last uint16) model.Policy {
	return model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: namespace, Name: name}, UID: "uid-" + namespace + "-" + name,
		Tier:    model.TierTenant,
		Subject: match.Pods{Namespace: namespace, Labels: labelIs(app)}, Isolates: [2]bool{true, false},
		Rules: [2][]model.Rule{{{
			Verdict: model.Allow, Peers: []model.Peer{{Pods: &match.Pods{Labels: labelIs(from)}}},
			Ports: []model.PolicyPort{{Protocol: model.UDP, First: first, Last: last}, {Protocol: model.TCP, First: first, Last: last}},
		}}},
	}
}

// labelIs selects the label app; all of them when it is empty.
func labelIs(app string) match.Selector {
	if app == "" {
		return match.Selector{}
	}
	return match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}
}

// tally counts datagrams by what they say.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *tally) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[text]++
}

func (c *tally) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.seen)
}

func (c *tally) of(text string) int { return c.all()[text] }

func (c *tally) String() string { return fmt.Sprint(c.all()) }
