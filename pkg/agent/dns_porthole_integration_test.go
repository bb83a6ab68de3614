//go:build integration

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"

	"github.com/atoll-net/atoll/pkg/agent/names"
	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	process "github.com/atoll-net/atoll/pkg/dns/names"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// testNames is the node's DNS program, and the API server that it reads.
type testNames struct {
	tb     testing.TB
	api    follow.Clients
	config process.Config
}

// newTestNames has the agent call a DNS program, which start starts.
func (n *node) newTestNames(a *Agent) *testNames {
	n.tb.Helper()
	scheme := fake.NewTestScheme()
	must(n.tb, metav1.AddMetaToScheme(scheme))
	kinds := map[schema.GroupVersionResource]string{
		v1alpha1.SchemeGroupVersion.WithResource("networks"):     "NetworkList",
		v1alpha1.SchemeGroupVersion.WithResource("atollconfigs"): "AtollConfigList",
	}
	t := &testNames{
		tb: n.tb,
		api: follow.Clients{
			Metadata: fake.NewSimpleMetadataClient(scheme),
			Kube:     kubefake.NewClientset(),
			Networks: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds,
				settingsObject(n.tb, testInfrastructure().DNS...)),
		},
		config: process.Config{ResolvConf: "/etc/resolv.conf", Socket: filepath.Join(n.dir, "dns.sock")},
	}
	a.names = names.New(t.config.Socket, a.metrics.nameless, a.log)
	a.bindPortholes()
	return t
}

// settingsObject has the settings of the cluster, with these addresses of its DNS.
func settingsObject(tb testing.TB, addresses ...netip.Addr) *unstructured.Unstructured {
	tb.Helper()
	spec := config.Defaults()
	for _, a := range addresses {
		spec.DNS.Addresses = append(spec.DNS.Addresses, v1alpha1.IP(a.String()))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.AtollConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "AtollConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConfigName}, Spec: spec,
	})
	must(tb, err)
	return &unstructured.Unstructured{Object: content}
}

// add shows the program a Network with a namespace of its name, and a Service in it.
func (t *testNames) add(network string, service *corev1.Service) {
	t.tb.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"type": "vpc"}}}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Network"))
	u.SetName(network)
	u.SetUID(types.UID(uidOf(network)))
	_, err := t.api.Networks.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).Create(t.tb.Context(), u, metav1.CreateOptions{})
	must(t.tb, err)
	namespaces := t.api.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).(fake.MetadataClient)
	_, err = namespaces.CreateFake(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: network, Labels: map[string]string{model.LabelNetwork: network}},
	}, metav1.CreateOptions{})
	must(t.tb, err)
	service.Namespace = network
	_, err = t.api.Kube.CoreV1().Services(network).Create(t.tb.Context(), service, metav1.CreateOptions{})
	must(t.tb, err)
}

// start starts the program, and returns how to end it.
func (t *testNames) start() (stop func()) {
	ctx, cancel := context.WithCancel(t.tb.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- process.Run(ctx, t.config, t.api, slog.New(slog.NewTextHandler(testWriter{t.tb}, nil)))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		must(t.tb, <-ended)
	})
	t.tb.Cleanup(stop)
	return stop
}

// TestPodsAskTheirPorthole: two pods of one address ask one address, through OVN, and each hears of its own Network. The
// server comes with the first pod, follows the Network, and goes with the last pod: it keeps no namespace. No pod waits for ever for it.
func TestPodsAskTheirPorthole(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	program := n.newTestNames(a)
	for i, network := range []string{"red", "blue"} {
		program.add(network,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})
		_, err := program.api.Kube.DiscoveryV1().EndpointSlices(network).Create(t.Context(), intake.Mirror(model.Mirror{
			Network: network, Source: model.SliceKey{Namespace: network, Name: "db-x"}, SourceUID: "uid", Service: "db",
			Endpoints: []model.Endpoint{{Address: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", 50+i)), Ready: true, Serving: true}},
		}), metav1.CreateOptions{})
		must(t, err)
	}
	stopNames := program.start()
	before := n.ours()
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	ask := func(p *testPod, transport, at, name string) (out *dns.Msg, err error) {
		err = p.inside(func() error {
			m := new(dns.Msg)
			m.SetQuestion(name, dns.TypeA)
			out, _, err = (&dns.Client{Net: transport, Timeout: 5 * time.Second}).ExchangeContext(t.Context(), m, at)
			return err
		})
		return out, err
	}
	for _, transport := range []string{"udp", "tcp"} {
		for _, at := range []string{testDNS + ":53", "[fd00:96::a]:53"} {
			for _, test := range []struct {
				pod  *testPod
				name string
				want string
			}{
				{red, "db.red.svc.cluster.local.", "10.0.0.50"},
				{red, "db.blue.svc.cluster.local.", ""},
				{blue, "db.blue.svc.cluster.local.", "10.0.0.51"},
				{blue, "db.red.svc.cluster.local.", ""},
			} {
				m, err := ask(test.pod, transport, at, test.name)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					// A resolver asks again, too: the first datagram after a port came may be lost.
					m, err = ask(test.pod, transport, at, test.name)
				}
				must(t, err)
				got := ""
				if len(m.Answer) == 1 {
					got = m.Answer[0].(*dns.A).A.String()
				}
				if got != test.want || test.want == "" && m.Rcode != dns.RcodeNameError {
					t.Errorf("%s by %s at %s: %v; want %q", test.name, transport, at, m, test.want)
				}
			}
		}
	}
	closed := vpc("blue")
	closed.DNS = model.DNSNone
	a.world.SetNetwork(closed)
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	wantRefused(t, blue.inside, testDNS+":53")
	stopNames()
	began := time.Now()
	late := n.addGuest(a, "red", "two", 6, 7)
	if took := time.Since(began); took < names.Patience || took > 2*names.Patience {
		t.Errorf("without a DNS program a pod started after %s; it waits %s", took, names.Patience)
	}
	program.start()
	_, err := a.Add(t.Context(), red.request)
	must(t, err)
	for _, p := range []*testPod{red, late} {
		if m, err := ask(p, "udp", testDNS+":53", "db.red.svc.cluster.local."); err != nil || len(m.Answer) != 1 {
			t.Errorf("after the DNS program was started again: %v, %v", m, err)
		}
	}
	for _, p := range []*testPod{red, blue, late} {
		must(t, a.Del(t.Context(), p.request))
	}
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
}
