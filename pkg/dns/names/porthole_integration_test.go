//go:build integration

package names

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"

	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/wait"
)

// testServers are where the pods of these tests ask.
var testServers = []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:96::a")}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// network is a Network as the API server shows it.
func network(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"type": "vpc", "subnets": []any{map[string]any{"name": "a", "cidrs": []any{"10.0.0.0/16"}}}, "egress": "none"},
	}}
	u.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	u.SetKind("Network")
	u.SetName(name)
	u.SetUID(uid(name))
	return u
}

// cluster is an API server that has these Networks, each with a namespace of its name and a Service db in it.
func cluster(tb testing.TB, names ...string) follow.Clients {
	tb.Helper()
	scheme := fake.NewTestScheme()
	must(tb, metav1.AddMetaToScheme(scheme))
	var networks, namespaces, services []apiruntime.Object
	for i, name := range names {
		networks = append(networks, network(name))
		namespaces = append(namespaces, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{model.LabelNetwork: name}},
		})
		address := fmt.Sprintf("10.96.1.%d", i)
		services = append(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "db"},
			Spec:       corev1.ServiceSpec{ClusterIP: address, ClusterIPs: []string{address}, Ports: []corev1.ServicePort{{Port: 80}}},
		})
	}
	kind := map[schema.GroupVersionResource]string{
		v1alpha1.SchemeGroupVersion.WithResource("networks"):     "NetworkList",
		v1alpha1.SchemeGroupVersion.WithResource("atollconfigs"): "AtollConfigList",
	}
	networks = append(networks, settings(tb, testServers...))
	return follow.Clients{
		Metadata: fake.NewSimpleMetadataClient(scheme, namespaces...),
		Kube:     kubefake.NewClientset(services...),
		Networks: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(apiruntime.NewScheme(), kind, networks...),
	}
}

// settings has the settings of the cluster, with these addresses of its DNS.
func settings(tb testing.TB, addresses ...netip.Addr) *unstructured.Unstructured {
	tb.Helper()
	spec := config.Defaults()
	for _, a := range addresses {
		spec.DNS.Addresses = append(spec.DNS.Addresses, v1alpha1.IP(a.String()))
	}
	content, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.AtollConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "AtollConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConfigName}, Spec: spec,
	})
	must(tb, err)
	return &unstructured.Unstructured{Object: content}
}

// openPorthole makes the namespace of a Network's porthole, as far as names need one, for as long as the test runs or until it is closed.
func openPorthole(tb testing.TB, network string) porthole.ID {
	tb.Helper()
	id := porthole.IDOf(string(uid(network)))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	must(tb, err)
	defer home.Close()
	made, err := netns.NewNamed(id.Name())
	must(tb, err)
	defer made.Close()
	tb.Cleanup(func() {
		if err := netns.DeleteNamed(id.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			tb.Error(err)
		}
	})
	lo, err := netlink.LinkByName("lo")
	must(tb, err)
	must(tb, netlink.LinkSetUp(lo))
	must(tb, giveAddresses())
	must(tb, netns.Set(home))
	return id
}

// giveAddresses gives the loopback interface of the calling thread's namespace those at which pods ask, as the agent does.
func giveAddresses() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, a := range testServers {
		if err := netlink.AddrAdd(lo, onLoopback(a)); err != nil {
			return err
		}
	}
	for _, a := range testServers {
		if err := untilItAnswersItself(a); err != nil {
			return err
		}
	}
	return nil
}

// untilItAnswersItself sends from an address of this namespace to itself until that arrives. Linux says that an IPv6 address is
// there before it has its route, and an address for which nobody else is asked (IFA_F_NODAD) is never tentative: nothing else
// tells.
func untilItAnswersItself(a netip.Addr) error {
	return wait.For(context.Background(), wait.Patience, func(context.Context) error { return sendToItself(a) })
}

func sendToItself(a netip.Addr) error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := conn.WriteTo([]byte("here?"), conn.LocalAddr()); err != nil {
		return err
	}
	_, _, err = conn.ReadFrom(make([]byte, 16))
	return err
}

func onLoopback(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: netlink.NewIPNet(a.AsSlice()), Flags: unix.IFA_F_NODAD}
}

func closePorthole(tb testing.TB, id porthole.ID) {
	tb.Helper()
	must(tb, netns.DeleteNamed(id.Name()))
}

// askIn asks for a Service db in a porthole, and returns its address, or what came instead.
func askIn(ctx context.Context, id porthole.ID, network string, client *dns.Client, server netip.Addr) string {
	var m *dns.Msg
	err := ns.WithNetNSPath(id.NetnsPath(), func(ns.NetNS) (err error) {
		question := new(dns.Msg)
		question.SetQuestion("db."+network+".svc.cluster.local.", dns.TypeA)
		m, _, err = client.ExchangeContext(ctx, question, netip.AddrPortFrom(server, sockets.Port).String())
		return err
	})
	switch {
	case err != nil:
		return err.Error()
	case m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1:
		return dns.RcodeToString[m.Rcode]
	}
	return m.Answer[0].(*dns.A).A.String()
}
