//go:build integration

package agent

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// countArrivals counts the datagrams that come to ports of a pod, by what they say, until the test ends.
func countArrivals(t *testing.T, p *testPod, first, last int) *tally {
	t.Helper()
	c := &tally{seen: map[string]int{}}
	for port := first; port <= last; port++ {
		var conn net.PacketConn
		must(t, p.inside(func() (err error) {
			conn, err = net.ListenPacket("udp4", ":"+strconv.Itoa(port))
			return err
		}))
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			buffer := make([]byte, 64)
			for {
				n, _, err := conn.ReadFrom(buffer)
				if err != nil {
					return
				}
				c.add(string(buffer[:n]))
			}
		}()
	}
	return c
}

// flood sends datagrams from new ports to a pod's ports in turn, up to ten thousand a second, until stop is called. sent
// counts them.
func flood(t *testing.T, from *testPod, to netip.Addr, first, last int, text string) (sent func() int, stop func()) {
	t.Helper()
	var n atomic.Int64
	end, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- from.inside(func() error {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for port := first; ; port++ {
				if port > last {
					port = first
				}
				conn, err := net.Dial("udp", netip.AddrPortFrom(to, uint16(port)).String())
				if err != nil {
					return err
				}
				// What nobody listens to is told by ICMP to the next write; each has a socket of its own.
				_, _ = conn.Write([]byte(text))
				_ = conn.Close()
				if n.Add(1)%10 != 0 {
					continue
				}
				select {
				case <-end:
					return nil
				case <-tick.C:
				}
			}
		})
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			close(end)
			must(t, <-done)
		})
	}
	t.Cleanup(stop)
	return func() int { return int(n.Load()) }, stop
}

// arrives waits until a datagram of a pod arrives at a port: then the state is there that allows it.
func arrives(t *testing.T, from *testPod, to netip.Addr, port int, counted *tally, text string) {
	t.Helper()
	before := counted.of(text)
	await(t, func() *bool {
		must(t, from.inside(func() error {
			conn, err := net.Dial("udp", netip.AddrPortFrom(to, uint16(port)).String())
			if err != nil {
				return err
			}
			defer conn.Close()
			_, _ = conn.Write([]byte(text))
			return nil
		}))
		if counted.of(text) > before {
			return new(bool)
		}
		return nil
	})
}

// ends waits until nothing arrives any more of what is sent: a number of datagrams in a row. It returns how many were sent
// before these, and how many had arrived. Open vSwitch goes on with what it decided before the flows changed, for half a
// second at most.
func ends(t *testing.T, sent func() int, seen *tally, text string, row int) (closed, arrived int) {
	t.Helper()
	closed, arrived = sent(), seen.of(text)
	await(t, func() *bool {
		if now := seen.of(text); now > arrived {
			closed, arrived = sent(), now
		}
		if sent() > closed+row {
			return new(bool)
		}
		return nil
	})
	return closed, arrived
}

// Policies of red judge red's packets: by who sends them, not by an address that a pod of blue has, too; and never its own
// node's.
func TestPoliciesJudgeTheirOwnNetworkOnly(t *testing.T) {
	j := newJudged(t)
	web, friend, stranger := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "friend", "10.0.0.6", "friend"), j.pod("red", "stranger",
		"10.0.0.7", "stranger")
	// The friend's address is a stranger's in blue, and the other way round.
	blueWeb, blueStranger, blueFriend := j.pod("blue", "web", "10.0.0.5", "web"), j.pod("blue", "stranger",
		"10.0.0.6", "stranger"), j.pod("blue", "friend", "10.0.0.7", "friend")
	own := netip.MustParseAddr("10.0.0.5")
	red, blue := countArrivals(t, web, 9000, 9001), countArrivals(t, blueWeb, 9000, 9001)
	arrives(t, stranger, own, 9000, red, "stranger before")
	serveName(t, web.inside, ":80", "red")
	j.policy(allowing("red", "friends", "web", "friend", 9000, 9000))
	everywhere := allowing("blue", "friends", "web", "friend", 9001, 9001)
	j.policy(everywhere)
	arrives(t, friend, own, 9000, red, "friend")
	arrives(t, blueFriend, own, 9001, blue, "friend")
	for _, test := range []struct {
		from *testPod
		port int
		seen *tally
		text string
	}{
		{stranger, 9000, red, "stranger"},
		{friend, 9001, red, "wrong port"},
		{blueStranger, 9001, blue, "stranger"},
		{blueFriend, 9000, blue, "wrong port"},
	} {
		sent, stop := flood(t, test.from, own, test.port, test.port, test.text)
		ends(t, sent, test.seen, test.text, 200)
		stop()
	}
	arrives(t, friend, own, 9000, red, "friend again")
	arrives(t, blueFriend, own, 9001, blue, "friend again")
	// Kubelet's probes are of no policy's business, and a client from outside is.
	wantAnswer(t, here, net.JoinHostPort(web.nic.Faces[0].String(), "80"), "red sees "+ownNode)
	wantAnswer(t, here, net.JoinHostPort(web.nic.Faces[1].String(), "80"), "red sees "+ownNode6)
	j.addService(j.world.nodeV4, web.nic.Faces[0].String())
	if answer, err := ask(j.world.inside, j.world.nodeV4+":80"); err == nil {
		t.Errorf("a client from outside got %q", answer)
	}
	j.policy(model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "outside"}, UID: "uid-outside", Tier: model.TierTenant,
		Subject: match.Pods{Namespace: "red", Labels: labelIs("web")}, Isolates: [2]bool{true, false},
		Rules: [2][]model.Rule{
			{{Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{{Block: &model.Block{CIDR: netip.MustParsePrefix(j.world.v4 + "/32")}}}}},
		},
	})
	await(t, func() *bool {
		if answer, err := ask(j.world.inside, j.world.nodeV4+":80"); err == nil && answer == "red sees "+j.world.v4 {
			return new(bool)
		}
		return nil
	})
}

// While policies come, change and go, what the states before and after both forbid never passes: here what a stranger sends,
// all the while, a thousand datagrams a second, each a connection of its own. Each state allows a friend something that no
// other state does, so that the test knows when it is there. And so while somebody takes the port away again and again, which
// the controller then makes anew.
func TestPoliciesChangeUnderTraffic(t *testing.T) {
	t.Run("alone", func(t *testing.T) { policiesChangeUnderTraffic(t, false) })
	t.Run("a port that is taken away", func(t *testing.T) { policiesChangeUnderTraffic(t, true) })
}

func policiesChangeUnderTraffic(t *testing.T, taken bool) {
	j := newJudged(t)
	web, friend, stranger := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "friend", "10.0.0.6", "friend"), j.pod("red", "stranger",
		"10.0.0.7", "stranger")
	own := netip.MustParseAddr("10.0.0.5")
	const first, last = 9000, 9036
	seen := countArrivals(t, web, first, last)
	arrives(t, stranger, own, first, seen, "before")

	next := first
	reached := func() {
		t.Helper()
		arrives(t, friend, own, next, seen, fmt.Sprint("friend ", next))
		next++
	}
	port := func() uint16 { return uint16(next) }
	j.policy(allowing("red", "one", "web", "friend", port(), port()))
	reached()
	sent, stop := flood(t, stranger, own, first, last, "stranger")
	closed, arrived := ends(t, sent, seen, "stranger", 2000)
	letBe := func() {}
	if taken {
		letBe = j.takeAway("red/web", "red/a")
	}
	cluster := func(name string, subject match.Selector, verdict model.Verdict, from string, ports ...uint16) model.Policy {
		peer := match.Pods{Labels: labelIs(from)}
		r := model.Rule{Verdict: verdict, AnyPort: true, Peers: []model.Peer{{Pods: &peer}}}
		for _, number := range ports {
			r.AnyPort, r.Ports = false, append(r.Ports, model.PolicyPort{Protocol: model.UDP, First: number, Last: number})
		}
		return model.Policy{
			Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: name}, UID: "uid-" + name, Tier: model.TierAdmin, Priority: 10,
			Subject: match.Pods{Labels: subject}, Rules: [2][]model.Rule{{r}},
		}
	}
	for round := range 6 {
		// Another rule, another subject, another name.
		j.policy(allowing("red", "one", "", "friend", port(), port()))
		reached()
		j.policy(allowing("red", "two", "web", "friend", port(), port()))
		j.withdraw(allowing("red", "one", "", "", 0, 0))
		reached()
		// The pod gets a label that another policy selects.
		app := fmt.Sprint("web", round)
		j.policy(allowing("red", "three", app, "friend", port(), port()))
		j.label(web, app)
		reached()
		// One of the cluster takes over from those of the namespace, and changes whom it is for; then they take over again.
		// The stranger's label stands for all that is denied.
		deny := cluster("deny", labelIs(app), model.Deny, "stranger")
		j.policy(deny)
		j.policy(cluster("mark", labelIs(app), model.Allow, "friend", port()))
		reached()
		j.withdraw(allowing("red", "two", "", "", 0, 0))
		j.withdraw(allowing("red", "three", "", "", 0, 0))
		deny.Subject.Labels = match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.Exists}}}
		j.policy(deny)
		// The mark is for everybody now, so that its state has a port group of its own, too.
		j.policy(cluster("mark", match.Selector{}, model.Allow, "friend", port()))
		reached()
		j.label(web, "web")
		j.policy(allowing("red", "one", "web", "friend", port(), port()))
		j.withdraw(deny)
		reached()
		j.withdraw(cluster("mark", match.Selector{}, model.Allow, "friend"))
	}
	letBe()
	stop()
	j.nbctl("--wait=hv", "sync")
	arrives(t, friend, own, next-1, seen, "last")
	t.Logf("%d datagrams of the stranger in %d states; arrived: %s", sent()-closed, next-first, seen)
	if n := seen.of("stranger") - arrived; n > 0 {
		t.Errorf("%d of %d datagrams arrived that every state forbids", n, sent()-closed)
	}
	// The stranger could have arrived all the time, had nothing forbidden it.
	j.withdraw(allowing("red", "one", "web", "", 0, 0))
	arrives(t, stranger, own, first, seen, "after")
}

// takeAway takes a port out of its switch, so that the database forgets it, twenty times a second, until it is let be.
func (j *judged) takeAway(port, from string) (letBe func()) {
	uuid := j.nbctl("get", "Logical_Switch_Port", port, "_uuid")
	end := make(chan struct{})
	var hand sync.WaitGroup
	hand.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				j.nbctl("remove", "Logical_Switch", from, "ports", uuid)
			}
		}
	})
	var once sync.Once
	letBe = func() {
		once.Do(func() { close(end) })
		hand.Wait()
	}
	j.tb.Cleanup(letBe)
	return letBe
}

// A pod is isolated from its first moment on, and so is one that comes under a policy while it is made.
func TestAPodIsIsolatedFromItsFirstMoment(t *testing.T) {
	j := newJudged(t)
	stranger, friend := j.pod("red", "stranger", "10.0.0.7", "stranger"), j.pod("red", "friend", "10.0.0.6", "friend")
	j.policy(allowing("red", "friends", "web", "friend", 9000, 9000))
	for i := range 5 {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(20 + i)})
		sent, stop := flood(t, stranger, address, 9000, 9000, "stranger")
		late := j.ask("red", fmt.Sprint("late-", i), address.String(), "web")
		// It listens before it has an address.
		counted := countArrivals(t, late, 9000, 9000)
		_, err := j.agent.Add(t.Context(), late.request)
		must(t, err)
		arrives(t, friend, address, 9000, counted, "friend")
		stop()
		arrives(t, friend, address, 9000, counted, "friend again")
		if n := counted.of("stranger"); n > 0 {
			t.Errorf("%d of %d datagrams arrived at %s", n, sent(), late.nic.Addresses[0])
		}
	}
}

// A policy for a pod of the default Network is nothing to others of it: they reach their node, its services and the outside
// as before, and so does the pod itself where the policy permits it.
func TestPoliciesLeavePodsOfTheDefaultNetworkTheirWayOut(t *testing.T) {
	j := newJudged(t)
	j.change(func(c *model.Changes) { c.Namespaces["plain"] = &model.Namespace{Name: "plain"} })
	web, friend := j.pod("plain", "web", "10.128.0.50", "web"), j.pod("plain", "friend", "10.128.0.51", "friend")
	serveName(t, here, testEncapIP+":8099", "node")
	serveName(t, j.world.inside, j.world.v4+":80", "outside")
	reached := func(p *testPod, when string) {
		t.Helper()
		for _, address := range []string{testEncapIP + ":8099", j.world.v4 + ":80"} {
			if answer, err := ask(p.inside, address); err != nil {
				t.Errorf("%s, %s: %q (%v)", when, address, answer, err)
			}
		}
	}
	reached(web, "without a policy")
	seen := countArrivals(t, web, 9000, 9000)
	own := web.nic.Addresses[0].Addr()
	j.policy(allowing("plain", "friends", "web", "friend", 9000, 9000))
	arrives(t, friend, own, 9000, seen, "friend")
	j.nbctl("--wait=hv", "sync")
	reached(friend, "another pod is isolated")
	reached(web, "the pod is isolated")
	out := allowing("plain", "friends", "web", "friend", 9000, 9000)
	out.Isolates[model.PolicyEgress] = true
	out.Rules[model.PolicyEgress] = []model.Rule{{Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{
		{Block: &model.Block{CIDR: netip.MustParsePrefix(testEncapIP + "/32")}}, {
			Block: &model.Block{CIDR: netip.MustParsePrefix(j.world.v4 + "/32")},
		},
	}}}
	j.policy(out)
	j.nbctl("--wait=hv", "sync")
	reached(web, "the pod may send there only")
}
