//go:build integration

package names

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	atolldns "github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/wait"
)

// TestNamesOfAProviderFollowTheCluster: a consumer's pods find what its provider offers, by faces, for as long as it is one.
func TestNamesOfAProviderFollowTheCluster(t *testing.T) {
	api := cluster(t, "red", "blue", "green")
	s, err := newServer(Config{ResolvConf: "/etc/resolv.conf"}, settingsOf(config.Settings{
		DNS:   config.DNS{Addresses: testServers, Domain: "cluster.local"},
		Faces: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")}, Subnet: netip.MustParsePrefix("10.128.0.0/14"),
	}), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	must(t, err)
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
	select {
	case <-s.complete:
	case <-ctx.Done():
		t.Fatal("the cluster was not read")
	}
	// serve has a Network answered at a loopback address, and returns what asks there until the answer is as expected.
	serve := func(name, address string) (until func(question, want string)) {
		at := netip.AddrPortFrom(netip.MustParseAddr(address), 5353)
		n := &model.Network{Name: name, UID: string(uid(name)), Type: model.VPC, Egress: model.EgressNone, Infra: model.InfraNone}
		must(t, s.node.Serve(ctx, n.UID, n, atolldns.Place{Addresses: []netip.AddrPort{at}}))
		return func(question, want string) {
			t.Helper()
			for got := ""; got != want; {
				m := new(dns.Msg)
				m.SetQuestion(question+".cluster.local.", dns.TypeA)
				out, _, err := (&dns.Client{Timeout: time.Second}).ExchangeContext(ctx, m, at.String())
				if got = fmt.Sprint(err); err == nil {
					got = dns.RcodeToString[out.Rcode]
					for _, rr := range out.Answer {
						got += " " + rr.(*dns.A).A.String()
					}
				}
				if ctx.Err() != nil {
					t.Fatalf("%s asks for %s: %s, want %s", name, question, got, want)
				}
			}
		}
	}
	blue, green := serve("blue", "127.0.0.53"), serve("green", "127.0.0.54")
	networks := api.Networks.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	offer := func(consumers ...any) {
		t.Helper()
		red := network("red")
		must(t, unstructured.SetNestedSlice(red.Object, consumers, "spec", "compatibleWith"))
		_, err := networks.Update(ctx, red, metav1.UpdateOptions{})
		must(t, err)
	}
	_, err = api.Kube.CoreV1().Services("red").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "set"}, Spec: corev1.ServiceSpec{
			ClusterIP: "None", Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	own := netip.MustParseAddr("10.0.0.5")
	mirror := intake.Mirror(model.Mirror{
		Network: "red", Source: model.SliceKey{Namespace: "red", Name: "set-x"}, SourceUID: "uid", Service: "set",
		Endpoints: []model.Endpoint{{Address: own, Hostname: "set-0", Ready: true, Serving: true}},
		Faces:     map[netip.Addr]netip.Addr{own: netip.MustParseAddr("100.64.0.5")},
	})
	slices := api.Kube.DiscoveryV1().EndpointSlices("red")
	mirror, err = slices.Create(ctx, mirror, metav1.CreateOptions{})
	must(t, err)

	blue("db.red.svc", "NXDOMAIN")
	offer(map[string]any{"network": "blue"})
	blue("db.red.svc", "NOERROR 10.96.1.0")
	blue("set.red.svc", "NOERROR 100.64.0.5")
	blue("set-0.set.red.svc", "NOERROR 100.64.0.5")
	green("set.red.svc", "NXDOMAIN")
	// What is no face is not told of.
	face := func(text string) {
		t.Helper()
		mirror = mirror.DeepCopy()
		mirror.Annotations[model.AnnotationFaces] = `{"10.0.0.5":"` + text + `"}`
		_, err := slices.Update(ctx, mirror, metav1.UpdateOptions{})
		must(t, err)
	}
	face("10.96.0.1")
	blue("set.red.svc", "NXDOMAIN")
	face("100.64.0.6")
	blue("set.red.svc", "NOERROR 100.64.0.6")
	offer()
	blue("set.red.svc", "NXDOMAIN")
	blue("db.red.svc", "NXDOMAIN")
	offer(map[string]any{"network": "blue"})
	blue("set.red.svc", "NOERROR 100.64.0.6")
	must(t, networks.Delete(ctx, "red", metav1.DeleteOptions{}))
	blue("set.red.svc", "NXDOMAIN")
}
