//go:build integration

package agent

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/wait"
)

// newPair is a node with two pods.
func newPair(t *testing.T) (n *node, a *Agent, one, two *testPod) {
	t.Helper()
	n = newNode(t)
	n.playController()
	a = n.agent()
	one, two = newPod(t, a, "one", 5), newPod(t, a, "two", 6)
	for _, p := range []*testPod{one, two} {
		_, err := a.Add(t.Context(), p.request)
		must(t, err)
	}
	return n, a, one, two
}

func TestAddedPodsReachEachOther(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	one, two := newPod(t, a, "one", 5), newPod(t, a, "two", 6)
	for _, p := range []*testPod{one, two} {
		result, err := a.Add(t.Context(), p.request)
		must(t, err)
		if got := result.IPs[0].Address.String(); got != p.address()+"/16" {
			t.Errorf("result has address %s, want %s/16", got, p.address())
		}
		if got := result.Interfaces[1].Mtu; got != testUnderlayMTU-model.GeneveOverhead {
			t.Errorf("MTU %d", got)
		}
		must(t, a.Check(t.Context(), p.request))
	}
	must(t, talk(t, one, two))
	ids := n.vsctl("get", "Interface", one.hostName(), "external_ids")
	for _, want := range []string{"iface-id=red/one", "iface-id-ver=" + quoted(one.request.Pod.UID), one.request.ContainerID} {
		if !strings.Contains(strings.ReplaceAll(ids, `"red/one"`, "red/one"), want) {
			t.Errorf("external_ids lack %s: %s", want, ids)
		}
	}
}

func quoted(s string) string { return `"` + s + `"` }

func TestAddRepeatedDisturbsNothing(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	p := newPod(t, a, "one", 5)
	first, err := a.Add(t.Context(), p.request)
	must(t, err)
	state := func() string {
		name := p.hostName()
		link, err := netlink.LinkByName(name)
		must(t, err)
		return n.vsctl("get", "Interface", name, "_uuid") + string(rune(link.Attrs().Index))
	}
	before := state()
	again, err := a.Add(t.Context(), p.request)
	must(t, err)
	if before != state() {
		t.Error("link or port was made anew")
	}
	if first.IPs[0].Address.String() != again.IPs[0].Address.String() {
		t.Errorf("other result: %v", again)
	}
}

func TestAddRepairsAnInterfaceThatThePodBroke(t *testing.T) {
	_, a, one, two := newPair(t)
	must(t, one.inside(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	}))
	if err := a.Check(t.Context(), one.request); err == nil {
		t.Error("CHECK found nothing wrong")
	}
	_, err := a.Add(t.Context(), one.request)
	must(t, err)
	must(t, talk(t, two, one))
}

func TestDelIsRepeatableAndLeavesNothing(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	p := newPod(t, a, "one", 5)
	_, err := a.Add(t.Context(), p.request)
	must(t, err)
	for range 2 {
		must(t, a.Del(t.Context(), p.request))
	}
	nothingOf(t, n, p)
	stranger := p.request
	stranger.ContainerID, stranger.Netns = "never-seen", ""
	must(t, a.Del(t.Context(), stranger))
}

// nothingOf expects neither a link of the pod nor any port of ours on the node.
func nothingOf(t *testing.T, n *node, p *testPod) {
	t.Helper()
	if found, err := netdev.Exists(p.hostName()); err != nil || found {
		t.Errorf("link left behind (error %v)", err)
	}
	if ports := n.vsctl("list-ports", "br-int"); ports != "" {
		t.Errorf("ports on the bridge: %s", ports)
	}
}

// TestWhatAPodSaidLastArrives: ovs-vswitchd, which has got no processor time for a while, still sends what a pod said before DEL.
func TestWhatAPodSaidLastArrives(t *testing.T) {
	n, a, one, two := newPair(t)
	var listener net.PacketConn
	must(t, two.inside(func() (err error) {
		listener, err = net.ListenPacket("udp", net.JoinHostPort(two.address(), "0"))
		return err
	}))
	defer listener.Close()
	hear := func(want string) {
		t.Helper()
		defer wait.Limit(listener, wait.Patience)()
		heard := make([]byte, 64)
		size, _, err := listener.ReadFrom(heard)
		if err != nil || string(heard[:size]) != want {
			t.Fatalf("heard %q (error %v), want %q", heard[:size], err, want)
		}
	}
	var conn net.Conn
	must(t, one.inside(func() (err error) {
		conn, err = net.Dial("udp", listener.LocalAddr().String())
		return err
	}))
	defer conn.Close()
	say := func(words string) {
		t.Helper()
		_, err := conn.Write([]byte(words))
		must(t, err)
	}
	say("first")
	hear("first")

	must(t, n.vswitchd.Process.Signal(unix.SIGSTOP))
	defer func() { _ = n.vswitchd.Process.Signal(unix.SIGCONT) }()
	say("last")
	gone := make(chan error, 1)
	go func() { gone <- a.Del(t.Context(), one.request) }()
	wait.Until(t, wait.Patience, "the port has gone", func() bool {
		_, found, err := a.ovs.Find(t.Context(), one.hostName())
		must(t, err)
		return !found
	})
	must(t, n.vswitchd.Process.Signal(unix.SIGCONT))
	hear("last")
	must(t, <-gone)
}

// TestDelDoesWithoutTheSwitch: ovs-vswitchd that stands still keeps DEL waiting for a while, not for ever.
func TestDelDoesWithoutTheSwitch(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	p := newPod(t, a, "one", 5)
	_, err := a.Add(t.Context(), p.request)
	must(t, err)
	must(t, n.vswitchd.Process.Signal(unix.SIGSTOP))
	defer func() { _ = n.vswitchd.Process.Signal(unix.SIGCONT) }()
	must(t, a.Del(t.Context(), p.request))
	nothingOf(t, n, p)
}

func TestNewSandboxTakesOver(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	old := newPod(t, a, "one", 5)
	_, err := a.Add(t.Context(), old.request)
	must(t, err)
	young := old.resandbox()
	_, err = a.Add(t.Context(), young.request)
	must(t, err)
	if got, want := n.vsctl("list-ports", "br-int"), young.hostName(); got != want {
		t.Errorf("ports %q, want only %q", got, want)
	}
	must(t, a.Del(t.Context(), old.request))
	must(t, a.Check(t.Context(), young.request))
	other := newPod(t, a, "two", 6)
	_, err = a.Add(t.Context(), other.request)
	must(t, err)
	must(t, talk(t, other, young))
}

func TestAddThatIsCutOffLeavesNothing(t *testing.T) {
	n := newNode(t)
	a := n.agent() // Nobody plays ovn-controller: ADD waits for it.
	p := newPod(t, a, "one", 5)
	ctx, cancel := context.WithCancel(t.Context())
	woken, stop := a.ovs.Watch(p.hostName())
	defer stop()
	failed := make(chan error)
	go func() {
		_, err := a.Add(ctx, p.request)
		failed <- err
	}()
	<-woken
	cancel()
	var known *types.Error
	if err := <-failed; !errors.As(err, &known) || known.Code != types.ErrTryAgainLater {
		t.Errorf("error %v", err)
	}
	nothingOf(t, n, p)
}

func TestAddNeverFollowsTheAnnotationsPort(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	p := newPod(t, a, "thief", 9)
	p.nic.Network = "blue"
	p.publish(a)
	_, err := a.Add(t.Context(), p.request)
	must(t, err)
	name := p.hostName()
	if got := n.vsctl("get", "Interface", name, "external_ids:iface-id"); got != `"red/thief"` && got != "red/thief" {
		t.Errorf("bound to %s", got)
	}
}

func TestAddSaysWhichUIDItWaitsFor(t *testing.T) {
	n := newNode(t)
	a := n.agent()
	p := newPod(t, a, "one", 5)
	request := p.request
	request.Pod.UID = "another"
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, _, err := a.pods.await(ctx, request.Pod, "eth0")
	if err == nil || !strings.Contains(err.Error(), p.request.Pod.UID) || !errors.Is(err, errEnough) {
		t.Errorf("error %v", err)
	}
}

func TestGCKeepsWhatIsValid(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	kept, gone := newPod(t, a, "kept", 5), newPod(t, a, "gone", 6)
	for _, p := range []*testPod{kept, gone} {
		_, err := a.Add(t.Context(), p.request)
		must(t, err)
	}
	must(t, a.GC(t.Context(), cni.Request{Command: cni.GC, Valid: []cni.Attachment{kept.request.Attachment}}))
	must(t, a.Check(t.Context(), kept.request))
	if got, want := n.vsctl("list-ports", "br-int"), kept.hostName(); got != want {
		t.Errorf("ports %q, want %q", got, want)
	}
}
