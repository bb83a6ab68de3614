//go:build integration

package names

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	atolldns "github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// TestNamesFollowTheCluster: from objects in a real API server, read with the agent's rights, to answers at a socket.
func TestNamesFollowTheCluster(t *testing.T) {
	server := apiserver.Start(t)
	for _, dir := range []string{"crds", "rbac"} {
		if err := server.Establish(t.Context(), filepath.Join("..", "..", "..", "dist", dir)); err != nil {
			t.Fatal(err)
		}
	}
	own := server.As("system:serviceaccount:atoll-system:atoll-dns")
	api := follow.Clients{
		Kube: kubernetes.NewForConfigOrDie(own), Metadata: metadata.NewForConfigOrDie(own), Networks: dynamic.NewForConfigOrDie(own),
	}
	admin := kubernetes.NewForConfigOrDie(server.RESTConfig())
	s, err := newServer(Config{ResolvConf: "/etc/resolv.conf"}, settingsOf(config.Settings{
		DNS: config.DNS{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Domain: "cluster.local"},
	}), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.node.Close()
	ctx, stop := context.WithCancel(wait.Context(t, wait.Patience))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	for name, watch := range s.watches(api) {
		watching.Go(func() {
			if err := watch(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	at := netip.MustParseAddrPort("127.0.0.53:5353")
	red := &model.Network{Name: "red", UID: "uid-red", Type: model.VPC, Egress: model.EgressNone, Infra: model.InfraNone}
	if err := s.node.Serve(ctx, "red", red, atolldns.Place{Addresses: []netip.AddrPort{at}}); err != nil {
		t.Fatal(err)
	}
	// until asks until the answer is as expected.
	until := func(name string, kind uint16, want string) {
		t.Helper()
		for {
			m := new(dns.Msg)
			m.SetQuestion(name+".cluster.local.", kind)
			out, _, err := (&dns.Client{Timeout: time.Second}).ExchangeContext(ctx, m, at.String())
			got := fmt.Sprint(err)
			if err == nil {
				got = dns.RcodeToString[out.Rcode]
				for _, rr := range out.Answer {
					if address, is := rr.(*dns.A); is {
						got += " " + address.A.String()
					}
				}
			}
			if got == want {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %s, want %s", name, got, want)
			}
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	until("db.team.svc", dns.TypeA, "NXDOMAIN")
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "team", Labels: map[string]string{model.LabelNetwork: "red"},
	}}, metav1.CreateOptions{})
	check(err)
	until("team.svc", dns.TypeA, "NOERROR")
	service, err := admin.CoreV1().Services("team").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{
			ClusterIP: "None", Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}},
		},
	}, metav1.CreateOptions{})
	check(err)
	mirror := intake.Mirror(model.Mirror{
		Network: "red", Source: model.SliceKey{Namespace: "team", Name: "db-x"}, SourceUID: "uid", Service: "db",
		Endpoints: []model.Endpoint{{Address: netip.MustParseAddr("10.0.0.5"), Hostname: "db-0", Ready: true, Serving: true}},
	})
	mirror.OwnerReferences = nil
	slices := admin.DiscoveryV1().EndpointSlices("team")
	mirror, err = slices.Create(ctx, mirror, metav1.CreateOptions{})
	check(err)
	until("db.team.svc", dns.TypeA, "NOERROR 10.0.0.5")
	until("db-0.db.team.svc", dns.TypeA, "NOERROR 10.0.0.5")
	// Kubernetes' own slice, with faces, is none of the Network's.
	_, err = slices.Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "db-x", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"100.64.0.1"}}},
	}, metav1.CreateOptions{})
	check(err)
	mirror.Endpoints[0].Addresses[0] = "10.0.0.6"
	_, err = slices.Update(ctx, mirror, metav1.UpdateOptions{})
	check(err)
	until("db.team.svc", dns.TypeA, "NOERROR 10.0.0.6")
	check(slices.Delete(ctx, mirror.Name, metav1.DeleteOptions{}))
	until("db.team.svc", dns.TypeA, "NXDOMAIN")
	check(admin.CoreV1().Services("team").Delete(ctx, service.Name, metav1.DeleteOptions{}))
	until("team.svc", dns.TypeA, "NOERROR")
	_, err = admin.CoreV1().Namespaces().Patch(ctx, "team", "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"atoll.dev/network":"blue"}}}`), metav1.PatchOptions{})
	check(err)
	until("team.svc", dns.TypeA, "NXDOMAIN")
}
