//go:build integration

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/uuid"
	"github.com/ovn-kubernetes/libovsdb/client"
	dbmodel "github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/wait"
)

// testPod is a pod with a sandbox of its own.
type testPod struct {
	tb      testing.TB
	request cni.Request
	nic     model.Attachment
}

// newPod makes a network namespace, and a pod object for it that has the host part of 10.0.0.0/16 given.
func newPod(tb testing.TB, a *Agent, name string, host byte) *testPod {
	tb.Helper()
	p := &testPod{tb: tb, nic: attachmentOf(host)}
	p.request = cni.Request{
		Command:    cni.Add,
		Attachment: cni.Attachment{ContainerID: uuid.NewString(), Interface: "eth0"},
		Netns:      newNetns(tb),
		Pod:        cni.PodRef{Namespace: "red", Name: name, UID: uuid.NewString()},
	}
	p.publish(a)
	return p
}

func attachmentOf(host byte) model.Attachment {
	return model.Attachment{
		Interface: "eth0",
		Network:   "red",
		Subnet:    "a",
		MAC:       fmt.Sprintf("0a:58:0a:00:00:%02x", host),
		Addresses: []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), 16),
			netip.MustParsePrefix(fmt.Sprintf("fd00:10::%x/64", host)),
		},
		Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00:10::1")},
	}
}

// publish has the agent see the pod as the controller left it.
func (p *testPod) publish(a *Agent) {
	nic := p.nic
	nic.PodUID = p.request.Pod.UID
	text, err := json.Marshal([]model.Attachment{nic})
	must(p.tb, err)
	a.pods.set(pod{key: p.request.Pod.Key(), uid: p.request.Pod.UID, attachments: string(text)})
}

// resandbox is the same pod in another sandbox, as kubelet makes one after a failure.
func (p *testPod) resandbox() *testPod {
	again := *p
	again.request.ContainerID = uuid.NewString()
	again.request.Netns = newNetns(p.tb)
	return &again
}

// hostName is the name of the node's end and of the port.
func (p *testPod) hostName() string {
	return netdev.HostName(p.request.ContainerID, p.request.Interface)
}

func (p *testPod) address() string { return p.nic.Addresses[0].Addr().String() }

// newNetns makes a network namespace that lives until the test ends or removeNetns is called.
func newNetns(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "netns")
	must(tb, os.WriteFile(path, nil, 0o600))
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine and its namespace stays only in the mount.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		made <- err
	}()
	must(tb, <-made)
	tb.Cleanup(func() { removeNetns(tb, path) })
	return path
}

// removeNetns does what a runtime does after DEL. It may be called again.
func removeNetns(tb testing.TB, path string) {
	tb.Helper()
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		tb.Fatal(err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
}

// inside runs f in the pod's network namespace.
func (p *testPod) inside(f func() error) error {
	return ns.WithNetNSPath(p.request.Netns, func(ns.NetNS) error { return f() })
}

// talk sends a line from one pod to another over TCP, and expects it back; by IPv4 and by IPv6.
func talk(tb testing.TB, from, to *testPod) error {
	tb.Helper()
	for _, prefix := range to.nic.Addresses {
		if err := talkTo(tb, from, to, prefix.Addr()); err != nil {
			return err
		}
	}
	return nil
}

func talkTo(tb testing.TB, from, to *testPod, address netip.Addr) error {
	tb.Helper()
	var listener net.Listener
	must(tb, to.inside(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
		return err
	}))
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	return from.inside(func() error {
		conn, err := wait.Dial(&net.Dialer{}, "tcp", listener.Addr().String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer wait.Limit(conn, 5*time.Second)()
		// Longer than one packet, so that segmentation shows too.
		sent := make([]byte, 64<<10)
		go func() { _, _ = conn.Write(sent) }()
		_, err = io.ReadFull(conn, make([]byte, len(sent)))
		return err
	})
}

// ifaceRow is what the part of ovn-controller needs of an interface.
type ifaceRow struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	Ofport      *int              `ovsdb:"ofport"`
}

// playController marks every interface that has an iface-id, and that Open vSwitch has taken, as installed, as
// ovn-controller does once its flows are in place, until the test ends.
func (n *node) playController() {
	n.tb.Helper()
	db, err := dbmodel.NewClientDBModel("Open_vSwitch", map[string]dbmodel.Model{"Interface": &ifaceRow{}})
	must(n.tb, err)
	ovs, err := client.NewOVSDBClient(db, client.WithEndpoint(n.db))
	must(n.tb, err)
	must(n.tb, ovs.Connect(n.tb.Context()))
	ctx, stop := context.WithCancel(context.Background())
	rows := make(chan *ifaceRow, 1000)
	see := func(_ string, m dbmodel.Model) { rows <- m.(*ifaceRow) }
	ovs.Cache().AddEventHandler(eventFuncs{see})
	row := &ifaceRow{}
	_, err = ovs.Monitor(ctx, ovs.NewMonitor(client.WithTable(row, &row.Name, &row.ExternalIDs, &row.Ofport)))
	must(n.tb, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case row := <-rows:
				taken := row.Ofport != nil && *row.Ofport > 0
				if !taken || row.ExternalIDs["iface-id"] == "" || row.ExternalIDs["ovn-installed"] != "" {
					continue
				}
				mark, err := ovsdb.NewOvsMap(map[string]string{"ovn-installed": "true"})
				if err != nil {
					panic(err)
				}
				// The row may have gone, and the database with it: then there is nothing to mark.
				_, _ = ovs.Transact(ctx, ovsdb.Operation{
					Op: ovsdb.OperationMutate, Table: "Interface",
					Where:     []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: row.UUID})},
					Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("external_ids", ovsdb.MutateOperationInsert, mark)},
				})
			}
		}
	}()
	n.tb.Cleanup(func() { stop(); <-ended; ovs.Close() })
}

// playRouters answers, in the bridge, whoever asks for the address that each Network's router has at its edge, as its flows
// do. Nothing else of OVN is there.
func (n *node) playRouters() {
	n.tb.Helper()
	router := model.EdgeAddresses()[0].Addr()
	n.run("ovs-ofctl", "add-flow", "unix:"+filepath.Join(n.dir, "br-int.mgmt"), fmt.Sprintf("priority=100,arp,arp_tpa=%s,arp_op=1,"+
		"actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:%[2]s->eth_src,set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],"+
		"set_field:%[2]s->arp_sha,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:%[1]s->arp_spa,in_port", router, model.EdgeMAC))
}

type eventFuncs struct {
	see func(string, dbmodel.Model)
}

func (e eventFuncs) OnAdd(table string, row dbmodel.Model)       { e.see(table, row) }
func (e eventFuncs) OnUpdate(table string, _, row dbmodel.Model) { e.see(table, row) }
func (e eventFuncs) OnDelete(string, dbmodel.Model)              {}
