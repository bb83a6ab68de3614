//go:build integration

package agent

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

func TestSweepRemovesWhatACrashLeft(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	// The agent died between link and port, and the pod is gone by now.
	unplugged := newPod(t, a, "unplugged", 5)
	w, err := a.wanted(t.Context(), unplugged.request, a.mustGet(t, unplugged), mustNIC(t, unplugged))
	must(t, err)
	must(t, netdev.Create(w.link))
	a.pods.remove(unplugged.request.Pod.Key(), unplugged.request.Pod.UID)
	// A pod that went while nobody looked: DEL never came.
	forgotten := newPod(t, a, "forgotten", 6)
	_, err = a.Add(t.Context(), forgotten.request)
	must(t, err)
	must(t, netdev.Delete(netdev.Owner{ContainerID: forgotten.request.ContainerID, Interface: "eth0"}))
	removeNetns(t, forgotten.request.Netns)
	// A pod that lives.
	alive := newPod(t, a, "alive", 7)
	_, err = a.Add(t.Context(), alive.request)
	must(t, err)
	// And what is not ours.
	n.vsctl("add-port", "br-int", "tenant0", "--", "set", "Interface", "tenant0", "type=internal",
		"external_ids:iface-id=red/foreign")

	must(t, a.sweep(t.Context()))

	if found, err := netdev.Exists(unplugged.hostName()); err != nil || found {
		t.Errorf("link without port and pod is left (error %v)", err)
	}
	if got, want := n.vsctl("list-ports", "br-int"), alive.hostName()+"\ntenant0"; got != want {
		t.Errorf("ports %q, want %q", got, want)
	}
	must(t, a.Check(t.Context(), alive.request))
}

func (a *Agent) mustGet(t *testing.T, p *testPod) pod {
	t.Helper()
	found, ok := a.pods.get(p.request.Pod.Key())
	if !ok {
		t.Fatalf("pod %s is not known", p.request.Pod.Key())
	}
	return found
}

func mustNIC(t *testing.T, p *testPod) attachment.NIC {
	t.Helper()
	text, err := json.Marshal([]model.Attachment{p.nic})
	must(t, err)
	n, err := attachment.Parse(string(text), p.nic.PodUID, p.nic.Interface)
	must(t, err)
	return n
}

func TestPodsSurviveALostDatabase(t *testing.T) {
	n, a, one, two := newPair(t)
	<-a.ovs.Changed()
	n.stopOVS()
	// The connection's end is noticed a moment later.
	wait.Until(t, wait.Patience, "STATUS tells that the database is away", func() bool { return a.Status(t.Context()) != nil })
	must(t, os.Remove(filepath.Join(n.dir, "conf.db")))
	n.startOVS()
	n.addBridge()
	for a.Status(t.Context()) != nil {
		<-a.ovs.Changed()
	}
	must(t, a.sweep(t.Context()))
	if got, want := n.vsctl("get", "Interface", one.hostName(),
		"external_ids:atoll.dev/sandbox"), one.request.ContainerID; got != `"`+want+`"` && got != want {
		t.Errorf("port came back with sandbox %s", got)
	}
	must(t, talk(t, one, two))
	must(t, a.Del(t.Context(), one.request))
	nothingLeft := n.vsctl("list-ports", "br-int")
	if nothingLeft != two.hostName() {
		t.Errorf("ports %q", nothingLeft)
	}
}

// A pod knows the MAC address of the node's end in the worst case, and sends the node's stack a packet. The kernel's
// datapath takes packets away from the stack by itself, but only of a link that is its port.
func TestGuardKeepsPodsFromTheNode(t *testing.T) {
	n := newNode(t)
	n.playController()
	a := n.agent()
	p := newPod(t, a, "one", 5)
	_, err := a.Add(t.Context(), p.request)
	must(t, err)
	host, err := netlink.LinkByName(p.hostName())
	must(t, err)
	received, err := net.ListenPacket("udp4", testEncapIP+":0")
	must(t, err)
	defer received.Close()

	send := func() bool {
		t.Helper()
		must(t, p.inside(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			err = netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, HardwareAddr: host.Attrs().HardwareAddr,
				IP: net.ParseIP("10.0.0.1"),
			})
			if err != nil {
				return err
			}
			conn, err := net.Dial("udp4", received.LocalAddr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("knock"))
			return err
		}))
		defer wait.Limit(received, 300*time.Millisecond)()
		_, _, err := received.ReadFrom(make([]byte, 100))
		return err == nil
	}
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/"+p.hostName()+"/rp_filter", []byte("0"), 0o600))
	must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0o600))
	probe := func(arrivesUnguarded bool) {
		t.Helper()
		unguard(t)
		if arrives := send(); arrives != arrivesUnguarded {
			t.Fatalf("without the guard the packet arrives: %t, want %t", arrives, arrivesUnguarded)
		}
		must(t, netdev.Guard())
		if send() {
			t.Error("a pod reached the node's own stack")
		}
	}
	probe(n.datapath == ovn.UserspaceDatapath)
	other := newPod(t, a, "two", 6)
	_, err = a.Add(t.Context(), other.request)
	must(t, err)
	must(t, talk(t, p, other))
	n.vsctl("del-port", "br-int", p.hostName())
	probe(true)
}

// unguard takes away what Guard or an earlier test's sweep made.
func unguard(t testing.TB) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	conn.FlushRuleset()
	must(t, conn.Flush())
}

func TestPodMTU(t *testing.T) {
	n := newNode(t)
	a := n.agent()
	mtu, err := a.podMTU(t.Context())
	must(t, err)
	if mtu != testUnderlayMTU-model.GeneveOverhead {
		t.Errorf("MTU %d", mtu)
	}
	a.mtu = 1280
	mtu, err = a.podMTU(t.Context())
	must(t, err)
	if mtu != 1280 {
		t.Errorf("MTU %d, want what was asked for", mtu)
	}
}
