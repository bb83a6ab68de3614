//go:build integration

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/cli"
	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/inspect/check"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
)

// The controller, and who checks: each test runs with their rights and no others.
const (
	controllerUser = "system:serviceaccount:atoll-system:atoll-controller"
	checker        = "checker"
)

// lab is an API server with two Networks of the same addresses and their pods, and an OVN central.
type lab struct {
	t          *testing.T
	server     *apiserver.Server
	central    *ovn.Central
	kubeconfig string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, server: apiserver.Start(t), central: ovn.Start(t, true)}
	dist := filepath.Join("..", "..", "dist")
	l.must(l.server.Establish(t.Context(), filepath.Join(dist, "crds")))
	l.must(l.server.Apply(t.Context(), filepath.Join(dist, "overlays/sandbox")))
	l.kubectl("create", "clusterrolebinding", checker, "--clusterrole=atoll-check", "--user="+checker)
	config, err := clientcmd.LoadFromFile(l.server.Kubeconfig())
	l.must(err)
	for _, user := range config.AuthInfos {
		user.Impersonate = checker
	}
	l.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	l.must(clientcmd.WriteToFile(*config, l.kubeconfig))
	var objects strings.Builder
	objects.WriteString("{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n")
	for _, name := range []string{"red", "blue"} {
		fmt.Fprintf(&objects, `
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s, labels: {atoll.dev/network: %[1]s}}}
---
{apiVersion: atoll.dev/v1alpha1, kind: Network, metadata: {name: %[1]s}, spec: {type: vpc, subnets: [{name: front, cidrs: [10.0.0.0/24]}, {name: back, cidrs: [10.0.1.0/24]}]}}
---
`, name)
	}
	l.apply(objects.String())
	objects.Reset()
	for _, name := range []string{"red", "blue"} {
		for i := range 4 {
			objects.WriteString(podOf(name, fmt.Sprintf("web-%d", i)))
		}
	}
	l.apply(objects.String())
	return l
}

// podOf is a pod of node n1; nobody runs it.
func podOf(namespace, name string) string {
	return fmt.Sprintf(
		"{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: %s}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}\n---\n",
		namespace, name)
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) kubectl(args ...string) string {
	l.t.Helper()
	out, err := l.server.Kubectl(l.t.Context(), args...)
	l.must(err)
	return string(out)
}

func (l *lab) apply(objects string) {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "objects.yaml")
	l.must(os.WriteFile(file, []byte(objects), 0o600))
	l.kubectl("apply", "--server-side", "-f", file)
}

func (l *lab) nbctl(args ...string) string {
	l.t.Helper()
	out, err := l.central.NBCtl(l.t.Context(), args...)
	l.must(err)
	return strings.TrimSpace(out)
}

// control runs the controller until stop is called.
func (l *lab) control(epoch string) (stop func()) {
	l.t.Helper()
	log := slog.New(slog.DiscardHandler)
	feed, err := kube.NewFeed(l.server.As(controllerUser), kube.Options{Logger: log})
	l.must(err)
	writer, err := kube.NewWriter(l.server.As(controllerUser), feed, kube.WriterOptions{Logger: log})
	l.must(err)
	settings, err := config.Read(l.t.Context(), l.server.As(controllerUser))
	l.must(err)
	engine := controller.New(controller.Config{
		Database: ovsdb.Config{Addresses: []string{l.central.NBAddress()}, Log: log},
		Defaults: defaults.Of(settings),
		Source:   feed, Sink: writer, Epoch: epoch, Log: log, Metrics: controller.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	running.Go(func() { writer.Run(ctx) })
	running.Go(func() {
		if err := engine.Run(ctx); err != nil {
			l.t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	l.t.Cleanup(stop)
	return stop
}

// check runs the command as its user does.
func (l *lab) check(args ...string) (status int, out string) {
	l.t.Helper()
	var text bytes.Buffer
	cmd := cli.Command("atoll")
	cmd.SetOut(&text)
	cmd.SetArgs(append([]string{"check", "--kubeconfig", l.kubeconfig, "--nb-address", l.central.NBAddress()}, args...))
	err := cmd.ExecuteContext(l.t.Context())
	status = cli.ExitStatus(err)
	if status == 2 {
		return status, err.Error()
	}
	return status, text.String()
}

// clean wants a check that finds nothing, in time.
func (l *lab) clean(want string, args ...string) {
	l.t.Helper()
	status, out := l.check(append(args, "--settle", "20s")...)
	if status != 0 || out != want+"\n" {
		l.t.Fatalf("status %d\n%s\nwant status 0 and %s", status, out, want)
	}
}

// found are the differences of a check, each as one line.
func (l *lab) found(args ...string) []string {
	l.t.Helper()
	status, out := l.check(append(args, "-o", "json", "--settle", "700ms")...)
	if status != 1 {
		l.t.Fatalf("status %d, want 1\n%s", status, out)
	}
	var report check.Report
	l.must(json.Unmarshal([]byte(out), &report))
	lines := make([]string, 0, len(report.Differences))
	for _, d := range report.Differences {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", d.Owner, d.Kind, d.Object, d.Column)))
	}
	return lines
}

// allIsWell is the verdict on a lab that nobody broke: 3 Networks of 9 rows (router, group of load balancers, the one of former
// backends, at the edge a switch, three ports and a route, and the ACL that guards its ports), two ACLs that keep faces out of
// each of the two that are vpc, 5 subnets of 3 rows, 8 pods, a node with a port and a route, a route more of each kind in the
// default Network, which has IPv6 too, the load balancers of the Kubernetes API and of kube-dns over UDP and TCP, 4 of faces in
// the two Networks that have them, and the guard of faces: 2 port groups, 19 ACLs and 8 address sets. And the load balancer of
// Service atoll-inspect, and what endpoints that vanish are put into: a load balancer, a router and two ports.
const allIsWell = "0 differences in 3 Networks, 8 pods, 109 rows"

func TestCheckNamesWhatSomebodyBroke(t *testing.T) {
	l := newLab(t)
	stop := l.control("one")
	l.clean(allIsWell)
	stop()
	epoch := l.nbctl("get", "NB_Global", ".", "external_ids:atoll.dev/epoch")

	uuid := func(table, name string) string {
		return l.nbctl("--bare", "--columns=_uuid", "find", table, "name="+name)
	}
	for _, damage := range [][]string{
		{"lsp-del", "red/web-0"},
		{"set", "Logical_Switch_Port", "red/web-1", `addresses="unknown"`, "options:requested-chassis=n9"},
		{"clear", "Logical_Switch_Port", "blue/web-1", "external_ids"},
		{"set", "Logical_Router_Port", "red/back:gateway", "networks=9.9.9.9/24"},
		{
			"--id=@p", "create", "Logical_Switch_Port", "name=stray", `external_ids={"atoll.dev/owner"="Pod/no/body"}`, "--", "add",
			"Logical_Switch", "red/front", "ports", "@p",
		},
		{"create", "Logical_Switch", "name=left", `external_ids={"atoll.dev/owner"="Network/gone"}`},
		{"add", "Logical_Switch", "blue/back", "ports", uuid("Logical_Switch_Port", "red/web-2")},
		{
			"add", "Logical_Switch", "blue/back", "ports", uuid("Logical_Switch_Port", "blue/web-0"), "--", "remove", "Logical_Switch",
			"blue/front", "ports", uuid("Logical_Switch_Port", "blue/web-0"),
		},
		{"remove", "NB_Global", ".", "options", "use_ct_inv_match"},
		// Somebody else's: not our business.
		{"ls-add", "theirs", "--", "lsp-add", "theirs", "their-port"},
	} {
		l.nbctl(damage...)
	}
	// Only the controller may write these.
	// kubectl reads before it writes, which the controller itself does not.
	l.kubectl("create", "clusterrole", "reads-status", "--verb=get", "--resource=pods/status")
	l.kubectl("create", "clusterrolebinding", "reads-status", "--clusterrole=reads-status", "--user="+controllerUser)
	write := func(namespace, pod string, attachments any) {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"atoll.dev/attachments": attachments}},
		})
		if err != nil {
			t.Fatal(err)
		}
		l.kubectl("--as="+controllerUser, "patch", "pod", "-n", namespace, pod, "--subresource=status", "--type=merge", "-p", string(patch))
	}
	written := l.kubectl("get", "pod", "-n", "red", "web-3", "-o", `jsonpath={.metadata.annotations.atoll\.dev/attachments}`)
	write("red", "web-3", strings.Replace(written, "0a:58", "0a:59", 1))
	write("blue", "web-2", nil)
	l.apply(podOf("blue", "new"))
	l.kubectl("patch", "network", "blue", "--type=json", `-p=[{"op": "add", "path": "/spec/subnets/0/excludeIPs", "value": ["10.0.0.100"]}]`)

	want := []string{
		"Network/blue status-behind: status.observedGeneration",
		"Pod/blue/new pod-pending: annotation atoll.dev/attachments",
		"Pod/blue/web-2 pod-pending: annotation atoll.dev/attachments",
		"Pod/red/web-3 annotation-differs: annotation atoll.dev/attachments",
		"Network/gone row-surplus: Logical_Switch left",
		"Network/red column-differs: Logical_Router_Port red/back:gateway networks",
		"OVN column-differs: NB_Global . options",
		"Pod/blue/web-0 element-missing: Logical_Switch blue/front ports",
		"Pod/blue/web-0 element-surplus: Logical_Switch blue/back ports",
		"Pod/blue/web-1 column-differs: Logical_Switch_Port blue/web-1 external_ids",
		"Pod/no/body row-surplus: Logical_Switch_Port stray",
		"Pod/red/web-0 row-missing: Logical_Switch_Port red/web-0",
		"Pod/red/web-1 column-differs: Logical_Switch_Port red/web-1 addresses",
		"Pod/red/web-1 column-differs: Logical_Switch_Port red/web-1 options",
		"Pod/red/web-2 element-surplus: Logical_Switch blue/back ports",
	}
	if diff := cmp.Diff(want, l.found()); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	// It has written nothing: whoever asks again gets the same answer.
	if diff := cmp.Diff(want, l.found()); diff != "" {
		t.Errorf("the second check (-want +got)\n%s", diff)
	}
	if got := l.nbctl("get", "NB_Global", ".", "external_ids:atoll.dev/epoch"); got != epoch {
		t.Errorf("the epoch was %s and is %s", epoch, got)
	}

	// A Network that loses all it has, but for the port of red/web-2: that is in a second switch now.
	l.nbctl("lr-del", "red", "--", "ls-del", "red/front", "--", "ls-del", "red/back")
	missing := slices.DeleteFunc(l.found(), func(line string) bool { return !strings.Contains(line, "row-missing") })
	if len(missing) != 17 {
		t.Errorf("rows that are missing: %q, want the router's, its way out's two, six of the subnets, their guard, the two that keep faces "+
			"out, the two that refuse what nobody serves, and three pods'", missing)
	}

	// The next controller mends all of it, while the check looks on.
	l.control("two")
	l.clean("0 differences in 3 Networks, 9 pods, 110 rows")
}

func TestCheckLooksAtBindingsAndInterfaces(t *testing.T) {
	l := newLab(t)
	l.control("one")
	l.clean(allIsWell)
	_, err := l.central.NBCtl(t.Context(), "--wait=sb", "sync")
	l.must(err)
	sbctl := func(args ...string) {
		t.Helper()
		_, err := l.central.SBCtl(t.Context(), args...)
		l.must(err)
	}
	sw := startSwitch(t)
	sbctl("chassis-add", "n1", "geneve", "127.0.0.1", "--", "chassis-add", "n2", "geneve", "127.0.0.2")
	for _, namespace := range []string{"red", "blue"} {
		for i := range 4 {
			name := fmt.Sprintf("%s/web-%d", namespace, i)
			sbctl("lsp-bind", name, "n1", "--", "set", "Port_Binding", name, "up=true")
			uid := l.kubectl("get", "pod", "-n", namespace, fmt.Sprintf("web-%d", i), "-o", "jsonpath={.metadata.uid}")
			sw.plug(fmt.Sprintf("%s%d", namespace, i), name, uid)
		}
	}
	everything := []string{"--sb-address", l.central.SBAddress(), "--node", "n1", "--ovs-db", sw.address}
	l.clean(allIsWell, everything...)

	sbctl("lsp-unbind", "red/web-0")
	sbctl("lsp-unbind", "red/web-1", "--", "lsp-bind", "red/web-1", "n2")
	sw.vsctl("del-port", "red2")
	sw.vsctl("set", "Interface", "red3", "external_ids:iface-id-ver=another")
	sw.vsctl("remove", "Interface", "blue0", "external_ids", "ovn-installed")
	sw.plug("gone", "blue/gone", "another")
	want := []string{
		"Pod/red/web-0 not-bound: Port_Binding red/web-0",
		"Pod/red/web-1 not-bound: Port_Binding red/web-1",
		"Pod/blue/gone interface-surplus: Interface gone",
		"Pod/blue/web-0 interface-differs: Interface blue0 external_ids",
		"Pod/red/web-2 interface-missing: Interface",
		"Pod/red/web-3 interface-differs: Interface red3 external_ids",
	}
	if diff := cmp.Diff(want, l.found(everything...)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Nobody who is not asked for is looked at.
	l.clean(allIsWell)
	if status, out := l.check("--sb-address", "unix:/nowhere.sock"); status != 2 || !strings.Contains(out, "OVN_Southbound") {
		t.Errorf("without a southbound database: status %d, %s", status, out)
	}
}

// TestCheckWhilePodsComeAndGo wants no difference at any moment of a cluster that is busy and well.
func TestCheckWhilePodsComeAndGo(t *testing.T) {
	l := newLab(t)
	l.control("one")
	l.clean(allIsWell)
	client, err := kubernetes.NewForConfig(l.server.RESTConfig())
	l.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	var churn sync.WaitGroup
	var made atomic.Int64
	for _, namespace := range []string{"red", "blue"} {
		pods := client.CoreV1().Pods(namespace)
		churn.Go(func() {
			now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
			for i := 0; ctx.Err() == nil; i++ {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("churn-%d", i%20)},
					Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				}
				if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err == nil {
					made.Add(1)
				}
				_ = pods.Delete(ctx, fmt.Sprintf("churn-%d", (i+10)%20), now)
			}
		})
	}
	for range 10 {
		if status, out := l.check(); status != 0 {
			t.Errorf("status %d after %d pods\n%s", status, made.Load(), out)
		}
	}
	cancel()
	churn.Wait()
	t.Logf("%d pods came and most of them went meanwhile", made.Load())
	if made.Load() < 20 {
		t.Errorf("only %d pods came", made.Load())
	}
}

func TestCheckThatSeesNotEverythingSaysSo(t *testing.T) {
	l := newLab(t)
	l.central.Kill("nb")
	if status, out := l.check(); status != 2 || !strings.Contains(out, "OVN_Northbound") {
		t.Errorf("without a database: status %d, %s", status, out)
	}
	l.must(l.central.StartDatabase(t.Context(), "nb"))
	if status, out := l.check("--settle", "0s"); status != 1 {
		t.Errorf("with an empty database: status %d, %s", status, out)
	}
	l.kubectl("delete", "clusterrolebinding", checker)
	if status, out := l.check(); status != 2 || !strings.Contains(out, "forbidden") {
		t.Errorf("without rights: status %d, %s", status, out)
	}
}
