//go:build integration

package agent

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

func (p *testPod) asked() nodeapi.Pod {
	ref := p.request.Pod
	return nodeapi.Pod{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// pinged is what became of two packets to each target, in the order in which it was told.
func (a *Agent) pinged(
	t *testing.T, from nodeapi.Pod, protocol model.Protocol, port uint16, targets ...netip.Addr,
) (answered, lost int, why string, err error) {
	t.Helper()
	spec := ping.Spec{
		Protocol: protocol, Port: port, Targets: targets, Count: 2, Size: 1000, Interval: ping.MinInterval, Timeout: 3 * time.Second,
	}
	err = a.inquiry().Ping(t.Context(), from, spec, func(r ping.Reply) {
		if r.Answered {
			answered++
			return
		}
		lost, why = lost+1, r.Why
	})
	return answered, lost, why, err
}

// TestPingsLeaveFromThePodAskedFor: packets leave from the network namespace of the pod with the UID that was asked for, by each
// protocol and family; of a pod that has gone, was made anew, or is another's namesake, there is an error, and nothing is sent.
func TestPingsLeaveFromThePodAskedFor(t *testing.T) {
	n, a, one, two := newPair(t)
	pinged := func(from nodeapi.Pod, protocol model.Protocol, port uint16, targets ...netip.Addr) (answered, lost int, why string, err error) {
		t.Helper()
		// ovs-vswitchd forwards by cached flows until it has revalidated them. One of these may lead to the port of a sandbox that has gone.
		n.appctl("revalidator/wait")
		return a.pinged(t, from, protocol, port, targets...)
	}
	a.pods.setSynced()
	both := []netip.Addr{two.nic.Addresses[0].Addr(), two.nic.Addresses[1].Addr()}
	if answered, lost, why, err := pinged(one.asked(), ping.ICMP, 0, both...); err != nil || answered != 4 || lost != 0 {
		t.Errorf("echo requests: %d answered, %d lost (%s): %v", answered, lost, why, err)
	}
	// Both have loopback alike. Only in one does somebody listen: whose namespace it is, shows in who answers.
	loopback := netip.MustParseAddr("127.0.0.1")
	must(t, two.inside(func() error {
		listener, err := net.Listen("tcp", "127.0.0.1:7777")
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
		}
		return err
	}))
	if answered, lost, why, err := pinged(two.asked(), model.TCP, 7777, loopback); err != nil || answered != 2 || lost != 0 {
		t.Errorf("from the pod that listens: %d answered, %d lost (%s): %v", answered, lost, why, err)
	}
	if answered, lost, why, err := pinged(one.asked(), model.TCP, 7777, loopback); err != nil || answered != 0 || lost != 2 ||
		!strings.HasPrefix(why, "refused") {
		t.Errorf("from the other one: %d answered, %d lost (%s): %v", answered, lost, why, err)
	}
	if answered, lost, why, err := pinged(one.asked(), model.UDP, 7777, both[0]); err != nil || answered != 0 || lost != 2 ||
		!strings.HasPrefix(why, "refused") {
		t.Errorf("datagrams to where nobody listens: %d answered, %d lost (%s): %v", answered, lost, why, err)
	}
	nobody := one.nic.Addresses[0].Addr().Next().Next().Next()
	if answered, lost, _, err := pinged(one.asked(), ping.ICMP, 0, nobody); err != nil || answered != 0 || lost != 2 {
		t.Errorf("an address that nobody has: %d answered, %d lost: %v", answered, lost, err)
	}

	refused := func(what string, pod nodeapi.Pod, says string) {
		t.Helper()
		answered, lost, _, err := pinged(pod, ping.ICMP, 0, both[0])
		if r, ok := errors.AsType[*nodeapi.RefusedError](err); !ok || !strings.Contains(r.What, says) || answered+lost > 0 {
			t.Errorf("%s: %v, %d packets", what, err, answered+lost)
		}
	}
	stranger := one.asked()
	stranger.UID = uuid.NewString()
	refused("a UID of nobody", stranger, "made anew")
	stranger.UID = two.asked().UID
	refused("the UID of another pod", stranger, "made anew")

	// The pod is made anew under its name: its old link is still there, and is not the new one's.
	before := one.asked()
	namesake := newPod(t, a, "one", 7)
	refused("the pod before", before, "made anew")
	refused("the pod that is being made", namesake.asked(), "no interface of Atoll's")
	_, err := a.Add(t.Context(), namesake.request)
	must(t, err)
	if answered, lost, why, err := pinged(namesake.asked(), ping.ICMP, 0, both...); err != nil || answered != 4 || lost != 0 {
		t.Errorf("from the new pod of the name: %d answered, %d lost (%s): %v", answered, lost, why, err)
	}

	// A sandbox that is made anew: the newest counts, and while its namespace has gone nobody's is entered instead.
	again := two.resandbox()
	must(t, a.Del(t.Context(), two.request))
	_, err = a.Add(t.Context(), again.request)
	must(t, err)
	if answered, _, why, err := pinged(again.asked(), ping.ICMP, 0, netip.MustParseAddr(namesake.address())); err != nil || answered != 2 {
		t.Errorf("from a new sandbox: %d answered (%s): %v", answered, why, err)
	}
	removeNetns(t, again.request.Netns)
	// Its interface goes with it, a moment later: from then on that is the reason.
	answered, lost, _, err := pinged(again.asked(), ping.ICMP, 0, both[0])
	r, ok := errors.AsType[*nodeapi.RefusedError](err)
	if !ok || answered+lost > 0 ||
		!strings.Contains(r.What, "has gone, or is being made") && !strings.Contains(r.What, "no interface of Atoll's") {
		t.Errorf("a pod whose namespace has gone: %v, %d packets", err, answered+lost)
	}
}
