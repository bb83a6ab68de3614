//go:build integration

package names

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	atolldns "github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// envCoreDNS names the program.
const envCoreDNS = "ATOLL_COREDNS"

// corefile has Kubernetes' usual settings (kubeadm's), but for the time to live.
const corefile = `cluster.local:%d in-addr.arpa:%d ip6.arpa:%d {
	bind 127.0.0.1
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig %s
		pods insecure
		ttl 5
	}
}
`

// difference is why we answer a question otherwise than CoreDNS; empty where we must not.
func difference(name string, kind uint16) string {
	service, _, _ := strings.Cut(strings.TrimSuffix(name, ".team.svc"), ".")
	switch {
	case name == "ns.dns":
		return "the server's addresses are those that pods ask"
	case name == "dns", name == "dns-version", strings.HasPrefix(name, "_tcp."), strings.HasPrefix(name, "_udp."):
		return "a name between others exists, and one of another type too (RFC 8020)"
	case strings.HasPrefix(name, "http.tcp."):
		return "ports and protocols have their underscores (RFC 2782)"
	case strings.HasSuffix(name, ".team.pod") && (kind == dns.TypeSRV || strings.HasPrefix(name, "a.")):
		return "a pod's name is one label and has addresses only"
	case service == "out", service == "gone", service == "loop", service == "alias" && kind != dns.TypeA:
		return "an alias is told even if it leads nowhere, and why it does (RFC 6604)"
	}
	return ""
}

// TestLikeCoreDNS asks real CoreDNS and us the same about the same objects.
func TestLikeCoreDNS(t *testing.T) {
	program := os.Getenv(envCoreDNS)
	if program == "" {
		t.Fatalf("%s must name CoreDNS's program", envCoreDNS)
	}
	ctx := wait.Context(t, 2*wait.Patience)
	server := apiserver.Start(t)
	admin := kubernetes.NewForConfigOrDie(server.RESTConfig())
	directory := atolldns.NewDirectory("cluster.local", []netip.Addr{netip.MustParseAddr("127.0.0.54")}, compatible.Settings{})
	fill(ctx, t, admin, directory)

	const theirs, ours = "127.0.0.1:5354", "127.0.0.54:5354"
	startCoreDNS(ctx, t, program, server.Kubeconfig())
	metrics, err := atolldns.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	node := atolldns.NewNode(atolldns.Config{
		Directory: directory, Resolvers: atolldns.FixedResolvers(nil), Metrics: metrics, Log: slog.New(slog.DiscardHandler),
	})
	defer node.Close()
	red := &model.Network{Name: "red", UID: "red", Type: model.VPC, Egress: model.EgressNone, Infra: model.InfraServices}
	if err := node.Serve(ctx, "red", red, atolldns.Place{Addresses: []netip.AddrPort{netip.MustParseAddrPort(ours)}}); err != nil {
		t.Fatal(err)
	}
	for answer(ctx, theirs, "late.team.svc.cluster.local.", dns.TypeA) != "NOERROR\nlate.team.svc.cluster.local. 5 IN A 10.96.0.99" {
		if ctx.Err() != nil {
			t.Fatal("CoreDNS does not know the last Service")
		}
	}
	same, other := 0, map[string]int{}
	for _, name := range questions() {
		kinds, full := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeCNAME}, name+".cluster.local."
		if strings.HasSuffix(name, ".") {
			kinds, full = []uint16{dns.TypePTR}, name
		}
		for _, kind := range kinds {
			they, we, why := answer(ctx, theirs, full, kind), answer(ctx, ours, full, kind), difference(name, kind)
			switch {
			case they == we:
				same++
			case why != "":
				other[why]++
			default:
				t.Errorf("%s %s (-CoreDNS +ours):\n%s", name, dns.TypeToString[kind], cmp.Diff(they, we))
			}
		}
	}
	t.Logf("%d answers are the same; others are not: %v", same, other)
	if same < 500 || len(other) != 5 {
		t.Errorf("%d answers are the same and %d reasons for others were met: was CoreDNS asked at all?", same, len(other))
	}
}

// questions are names under the cluster's domain, or with a dot at the end any.
func questions() []string {
	names := []string{
		"svc", "pod", "dns", "ns.dns", "dns-version", "team.svc", "team.pod", "none.svc", "none.pod", "x", "x.y.z",
		"10-0-0-5.team.pod", "fd00--5.team.pod", "10-0-0-5.none.pod", "nonsense.team.pod", "a.10-0-0-5.team.pod",
		"web.none.svc", "none.team.svc", "Kubernetes.Default.Svc",
		"1.0.96.10.in-addr.arpa.", "5.0.96.10.in-addr.arpa.", "77.0.96.10.in-addr.arpa.",
		"9.9.9.10.in-addr.arpa.", "5.0.0.10.in-addr.arpa.", "6.0.0.10.in-addr.arpa.", "7.0.0.10.in-addr.arpa.", "8.0.0.10.in-addr.arpa.",
		"5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.",
	}
	for _, service := range []string{"web", "db", "empty", "early", "late", "out", "alias", "gone", "loop", "number", "bare"} {
		for _, front := range []string{
			"", "_http._tcp.", "_http._udp.", "_dns._udp.", "_tcp.", "_udp.", "http.tcp.", "web-0.", "db-0.", "db-1.", "10-0-0-6.", "10-0-0-5.",
			"fd00--5.", "a.b.c.", "*.",
		} {
			names = append(names, front+service+".team.svc")
		}
	}
	return names
}

// answer is the reply's code and its answers, sorted.
func answer(ctx context.Context, at, name string, kind uint16) string {
	m := new(dns.Msg)
	m.SetQuestion(name, kind)
	m.SetEdns0(1232, false)
	out, _, err := (&dns.Client{Timeout: 5 * time.Second}).ExchangeContext(ctx, m, at)
	if err != nil {
		return err.Error()
	}
	lines := []string{}
	for _, rr := range out.Answer {
		// What a weight is nobody prescribes.
		if srv, is := rr.(*dns.SRV); is {
			srv.Weight = 0
		}
		lines = append(lines, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(lines)
	return strings.Join(append([]string{dns.RcodeToString[out.Rcode]}, lines...), "\n")
}

func startCoreDNS(ctx context.Context, t *testing.T, program, kubeconfig string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(file, fmt.Appendf(nil, corefile, 5354, 5354, 5354, kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, "-conf", file)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// fill makes the same objects for both: for CoreDNS in the API server, for us as the agent reads them.
func fill(ctx context.Context, t *testing.T, admin kubernetes.Interface, d *atolldns.Directory) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
	check(err)
	d.SetNamespace(&model.Namespace{Name: "team", Labels: map[string]string{model.LabelNetwork: "red"}})
	// The API server makes this one by itself, some time after it has started.
	for {
		if api, err := admin.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{}); err == nil {
			d.SetService(serviceForDNS(api))
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the API server has no Service")
		}
	}
	http := []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}}
	alias := func(to string) corev1.ServiceSpec {
		return corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: to}
	}
	for name, spec := range map[string]corev1.ServiceSpec{
		"web":    {ClusterIP: "10.96.0.5", Ports: http},
		"late":   {ClusterIP: "10.96.0.99", Ports: http},
		"db":     {ClusterIP: "None", Ports: http},
		"empty":  {ClusterIP: "None", Ports: http},
		"early":  {ClusterIP: "None", Ports: http, PublishNotReadyAddresses: true},
		"bare":   {ClusterIP: "None"},
		"out":    alias("www.example.com"),
		"alias":  alias("web.team.svc.cluster.local"),
		"gone":   alias("none.team.svc.cluster.local"),
		"loop":   alias("loop.team.svc.cluster.local"),
		"number": alias("192.0.2.1"),
	} {
		s, err := admin.CoreV1().Services("team").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec},
			metav1.CreateOptions{})
		check(err)
		d.SetService(serviceForDNS(s))
	}
	yes, no := true, false
	text := func(s string) *string { return &s }
	port := func(name string, p corev1.Protocol, number int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: &p, Port: &number}
	}
	named := []discoveryv1.EndpointPort{port("http", corev1.ProtocolTCP, 8080), port("dns", corev1.ProtocolUDP, 5353)}
	for name, slice := range map[string]discoveryv1.EndpointSlice{
		"web-1": {AddressType: discoveryv1.AddressTypeIPv4, Ports: named, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.5"}}}},
		"db-1": {AddressType: discoveryv1.AddressTypeIPv4, Ports: named, Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.5"}, Hostname: text("db-0")},
			{Addresses: []string{"10.0.0.6"}},
			{Addresses: []string{"10.0.0.7"}, Hostname: text("db-1"), Conditions: discoveryv1.EndpointConditions{Ready: &no}},
		}},
		"db-2": {
			AddressType: discoveryv1.AddressTypeIPv6, Ports: named, Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"fd00::5"}, Hostname: text("db-0")},
			},
		},
		"empty-1": {
			AddressType: discoveryv1.AddressTypeIPv4, Ports: named, Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.0.0.8"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
			},
		},
		"early-1": {
			AddressType: discoveryv1.AddressTypeIPv4, Ports: named, Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.0.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
			},
		},
		"bare-1": {AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.6"}}}},
	} {
		service, _, _ := strings.Cut(name, "-")
		slice.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}}
		s, err := admin.DiscoveryV1().EndpointSlices("team").Create(ctx, &slice, metav1.CreateOptions{})
		check(err)
		d.SetSlice(atolldns.SliceKey{Namespace: "team", Name: name}, sliceForDNS(asMirror(s), nil))
	}
	// The endpoints of another Network, as the controller writes them, are nobody's to tell of.
	other := intake.Mirror(model.Mirror{
		Network: "blue", Source: model.SliceKey{Namespace: "team", Name: "web-1"}, SourceUID: "uid", Service: "web",
		Endpoints: []model.Endpoint{{Address: netip.MustParseAddr("10.9.9.9"), Ready: true, Serving: true, Hostname: "secret"}},
	})
	other.OwnerReferences = nil
	other, err = admin.DiscoveryV1().EndpointSlices("team").Create(ctx, other, metav1.CreateOptions{})
	check(err)
	d.SetSlice(atolldns.SliceKey{Namespace: "team", Name: other.Name}, sliceForDNS(other, nil))
	d.SetComplete()
}

// asMirror is what the controller would write for a slice whose addresses are the pods' own.
func asMirror(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	of := intake.Slice(s)
	return intake.Mirror(model.Mirror{
		Network: "red", Source: of.Key, SourceUID: of.UID, Service: of.Service, Ports: of.Ports, Endpoints: of.Endpoints,
	})
}
