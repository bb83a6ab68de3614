//go:build integration

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/agent/flows"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// part runs something until the test ends, or stop is called.
func (j *judged) part(run func(context.Context) error) (stop func()) {
	j.tb.Helper()
	ctx, cancel := context.WithCancel(j.tb.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		must(j.tb, <-done)
	}
	j.tb.Cleanup(stop)
	return stop
}

func (j *judged) sampler(networks ...string) ovsdb.Sampler {
	epoch := strings.Trim(strings.TrimSpace(j.nbctl("get", "NB_Global", ".", "external_ids:"+nb.KeyEpoch)), `"`)
	return ovsdb.Sampler{
		Config: ovsdb.Config{Addresses: []string{"unix:" + filepath.Join(j.central, "ovn.sock")}, Log: j.agent.log},
		Epoch:  epoch, On: true, Networks: networks,
	}
}

// sampled has OVN sample what ACLs decide, and the node's flows be kept.
func (j *judged) sampled(networks ...string) *flows.Flows {
	j.tb.Helper()
	f := flows.New(flows.Config{
		Switch: j.agent.ovs, Southbound: (&southbound{told: "unix:" + filepath.Join(j.central, "ovn.sock"), log: j.agent.log}).read,
		Node: j.name, Lives: j.agent.lives, Log: j.agent.log,
	})
	j.part(f.Serve)
	f.Want(true)
	j.part(j.sampler(networks...).Run)
	return f
}

// flowsOf are those that are asked for.
func flowsOf(t *testing.T, f *flows.Flows, q model.FlowQuestion) []model.Flow {
	t.Helper()
	var out []model.Flow
	if err := f.Ask(t.Context(), q, func(flow model.Flow) error {
		out = append(out, flow)
		return nil
	}); err != nil && !errors.Is(err, flows.ErrOff) {
		t.Fatal(err)
	}
	return out
}

// seriesOf is the value of a series.
func seriesOf(t *testing.T, f *flows.Flows, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(flows.NewCollector(f)))
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// awaitFlow sends until a flow is seen.
func awaitFlow(t *testing.T, f *flows.Flows, q model.FlowQuestion, send func() error, is func(model.Flow) bool) model.Flow {
	t.Helper()
	return *await(t, func() *model.Flow {
		must(t, send())
		for _, flow := range flowsOf(t, f, q) {
			if is(flow) {
				return &flow
			}
		}
		return nil
	})
}

// toldToControllers: who asks the agent for flows of one Network is told of it alone, though another's pods have the same
// addresses; the control is who asks for all.
func (j *judged) toldToControllers(t *testing.T, networks ...string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nodeapi.Handler(j.agent.inquiry(), j.agent.log))
	server.StartTLS()
	defer server.Close()
	listens := netip.MustParseAddrPort(server.Listener.Addr().String())
	client := nodeapi.Client{
		Node: j.name, Addresses: []netip.Addr{listens.Addr()}, Port: listens.Port(),
		TLS: func(netip.Addr) *tls.Config { return &tls.Config{InsecureSkipVerify: true} },
	}
	ask := func(q nodeapi.FlowsQuestion) map[string]int {
		t.Helper()
		q.User, q.Flows.Limit = "jo", nodeapi.MaxFlows
		told := map[string]int{}
		must(t, client.Flows(t.Context(), q, func(flow model.Flow) error {
			told[flow.Network]++
			return nil
		}))
		return told
	}
	all := ask(nodeapi.FlowsQuestion{All: true})
	for _, name := range networks {
		for _, q := range []model.FlowQuestion{{Networks: []string{name}}, {Namespaces: []string{name}}} {
			if told := ask(nodeapi.FlowsQuestion{Flows: q}); len(told) != 1 || told[name] == 0 {
				t.Errorf("asked for %+v a controller is told of %v", q, told)
			}
		}
		if all[name] == 0 {
			t.Errorf("asked for all it is told of %v: this test shows nothing", all)
		}
	}
}

// Who is allowed is in the flows and who is not in the drops, with the policy's name, of the Network where it was: also where
// another Network's pods have the same addresses.
func TestFlowsTellNetworksApart(t *testing.T) {
	j := newJudged(t)
	web, friend, stranger := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "friend", "10.0.0.6", "friend"), j.pod("red", "stranger",
		"10.0.0.7", "stranger")
	blueWeb, blueOne := j.pod("blue", "shop", "10.0.0.5", "web"), j.pod("blue", "one", "10.0.0.6", "other")
	own := netip.MustParseAddrPort("10.0.0.5:9000")
	j.policy(allowing("red", "friends", "web", "friend", 9000, 9000))
	j.policy(allowing("blue", "nobodys", "web", "nobody", 9000, 9000))
	admin := allowing("red", "admin", "web", "friend", 9005, 9005)
	admin.Key = model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "admin"}
	admin.Tier, admin.Isolates = model.TierAdmin, [2]bool{}
	admin.Rules[0][0].Verdict = model.Deny
	j.policy(admin)
	f := j.sampled()
	send := func(p *testPod) func() error {
		return func() error { return p.inside(func() error { return sendDatagram(own, "x") }) }
	}
	red, blue := model.FlowQuestion{Networks: []string{"red"}}, model.FlowQuestion{Networks: []string{"blue"}}
	allowed := awaitFlow(t, f, red, send(friend), func(f model.Flow) bool {
		return f.Verdict == "allow" && f.Source.String() == friend.address() && f.Pod != ""
	})
	if allowed.Policy != "NetworkPolicy/red/friends" || allowed.Rule != "0" || allowed.Direction != "Ingress" || allowed.Pod != "red/web" ||
		allowed.Destination != own.Addr() || allowed.Port != own.Port() || allowed.Protocol != "udp" || allowed.Connections == 0 ||
		allowed.Packets == 0 {
		t.Errorf("%+v", allowed)
	}
	redDrops, blueDrops := red, blue
	redDrops.Drops, blueDrops.Drops = true, true
	dropped := awaitFlow(t, f, redDrops, send(stranger),
		func(f model.Flow) bool { return f.Source.String() == stranger.address() && f.Pod != "" })
	if dropped.Policy != nb.Isolation || dropped.Verdict != "drop" || dropped.Pod != "red/web" {
		t.Errorf("%+v", dropped)
	}
	// The address that is the friend's in red.
	dropped = awaitFlow(t, f, blueDrops, send(blueOne),
		func(f model.Flow) bool { return f.Source.String() == blueOne.address() && f.Pod != "" })
	if dropped.Network != "blue" || dropped.Policy != nb.Isolation || dropped.Pod != "blue/shop" {
		t.Errorf("%+v", dropped)
	}
	if friend.address() != blueOne.address() || web.address() != blueWeb.address() {
		t.Fatal("this test shows nothing")
	}
	// What one may hear of is nothing of the other.
	for _, q := range []model.FlowQuestion{red, blue, {Namespaces: []string{"red"}}, {Namespaces: []string{"blue"}}} {
		all := flowsOf(t, f, q)
		if len(all) == 0 {
			t.Errorf("nothing of %+v", q)
		}
		for _, flow := range all {
			if name := slices.Concat(q.Networks, q.Namespaces)[0]; flow.Network != name || flow.Pod != "" && !strings.HasPrefix(flow.Pod, name+"/") {
				t.Errorf("asked for %+v: %+v", q, flow)
			}
		}
	}
	for _, q := range []model.FlowQuestion{
		{Networks: []string{}},
		{Namespaces: []string{}},
		{Networks: []string{"green"}},
		{Networks: []string{""}},
		{Networks: []string{"red"}, Namespaces: []string{"blue"}},
	} {
		if all := flowsOf(t, f, q); len(all) > 0 {
			t.Errorf("asked for %+v: %+v", q, all)
		}
	}
	j.agent.flows = f
	j.toldToControllers(t, "red", "blue")
	for _, flow := range flowsOf(t, f, redDrops) {
		if flow.Verdict != "drop" {
			t.Errorf("among the drops: %+v", flow)
		}
	}
	// A pod reaches the collector by none of the node's addresses. The control is the node itself.
	target, err := netip.ParseAddrPort(strings.Trim(strings.TrimSpace(j.vsctl("--bare", "--columns=targets", "list", "IPFIX")), `"[]`))
	must(t, err)
	for _, address := range []string{testEncapIP, j.world.nodeV4, "127.0.0.1", "10.0.0.1"} {
		must(t, stranger.inside(func() error {
			// Where it has no way, it has none.
			_ = sendDatagram(netip.AddrPortFrom(netip.MustParseAddr(address), target.Port()), "forged")
			return nil
		}))
	}
	must(t, sendDatagram(netip.AddrPortFrom(netip.MustParseAddr(testEncapIP), target.Port()), "forged"))
	must(t, sendDatagram(target, "forged"))
	await(t, func() *bool {
		if seriesOf(t, f, "atoll_agent_flow_malformed_total") > 0 {
			return new(bool)
		}
		return nil
	})
	if n := seriesOf(t, f, "atoll_agent_flow_malformed_total"); n != 1 {
		t.Errorf("%v datagrams of others were read", n)
	}
	awaitFlow(t, f, redDrops, func() error {
		return friend.inside(func() error { return sendDatagram(netip.AddrPortFrom(own.Addr(), 9005), "x") })
	}, func(f model.Flow) bool { return f.Policy == "ClusterNetworkPolicy/admin" })
	// What follows comes as it happens.
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	got := make(chan model.Flow, 1)
	go func() {
		_ = f.Ask(ctx, model.FlowQuestion{Networks: []string{"red"}, Drops: true, Follow: true}, func(flow model.Flow) error {
			if flow.Port == 9009 {
				got <- flow
				enough()
			}
			return nil
		})
	}()
	if flow := *await(t, func() *model.Flow {
		must(t, stranger.inside(func() error { return sendDatagram(netip.AddrPortFrom(own.Addr(), 9009), "x") }))
		select {
		case flow := <-got:
			return &flow
		default:
			return nil
		}
	}); flow.Policy != nb.Isolation {
		t.Errorf("followed: %+v", flow)
	}
}

// Samples are of the Networks that are asked for, and go with the asking; what ACLs decide stays as it is.
func TestSamplesComeAndGo(t *testing.T) {
	j := newJudged(t)
	j.pod("red", "web", "10.0.0.5", "web")
	j.pod("blue", "web", "10.0.0.5", "web")
	j.policy(allowing("red", "friends", "web", "friend", 9000, 9000))
	j.policy(allowing("blue", "friends", "web", "friend", 9000, 9000))
	count := func(network, condition string) int {
		return len(strings.Fields(j.nbctl("--bare", "--columns=_uuid", "find", "ACL", `external_ids:"`+nb.KeyNetwork+`"=`+network, condition)))
	}
	await(t, func() *bool {
		if count("red", "tier>=0") >= 5 && count("blue", "tier>=0") >= 5 {
			return new(bool)
		}
		return nil
	})
	before := j.nbctl("--columns=_uuid,match,action,priority", "list", "ACL")
	stop := j.part(j.sampler("red").Run)
	await(t, func() *bool {
		if count("red", "sample_new!=[]") >= count("red", "action!=pass") {
			return new(bool)
		}
		return nil
	})
	if n := count("blue", "sample_new!=[]"); n > 0 {
		t.Errorf("%d ACLs of blue are sampled", n)
	}
	// One that comes later.
	j.policy(allowing("red", "later", "web", "stranger", 9001, 9001))
	await(t, func() *bool {
		if strings.Contains(j.nbctl("--columns=match", "find", "ACL", "sample_new!=[]"), "NetworkPolicy/red/later") {
			return new(bool)
		}
		return nil
	})
	j.withdraw(model.Policy{Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "later"}})
	stop()
	// One whose term is over writes nothing.
	late := j.sampler()
	late.Epoch = "an earlier one"
	if err := late.Run(t.Context()); !errors.Is(err, ovsdb.ErrEpoch) {
		t.Errorf("in another's epoch: %v", err)
	}
	off := j.sampler()
	off.On = false
	must(t, off.Run(t.Context()))
	if left := j.nbctl("find", "ACL", "sample_new!=[]") + j.nbctl("list", "Sample") +
		j.nbctl("list", "Sample_Collector"); strings.TrimSpace(left) != "" {
		t.Errorf("left: %s", left)
	}
	await(t, func() *bool {
		if j.nbctl("--columns=_uuid,match,action,priority", "list", "ACL") == before {
			return new(bool)
		}
		return nil
	})
	must(t, off.Run(t.Context()))
}
