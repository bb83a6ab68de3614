//go:build integration

package inspectapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/cli"
	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/inspect/inspectapi/announce"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/sandbox/pki"
	"github.com/atoll-net/atoll/test/wait"
)

// controllerUser and inspectUser are the users of our programs, which have no other rights. inspectNode is the node that inspection
// names as its own.
const (
	controllerUser = "system:serviceaccount:atoll-system:atoll-controller"
	inspectUser    = "system:serviceaccount:atoll-system:atoll-inspect"
	inspectNode    = "n1"
)

// lab is an API server that aggregates, OVN's databases, a controller, and inspection.
type lab struct {
	t       testing.TB
	server  *apiserver.Server
	central *ovn.Central
	// sampling says whether the settings have flows sampled.
	sampling atomic.Bool
	// mended: the node on which something differs has been repaired.
	mended atomic.Bool
	// address is where inspection listens; stop ends it.
	address string
	stop    func()
}

func newLab(t testing.TB, northd bool) *lab {
	t.Helper()
	l := &lab{t: t, server: aggregating(t), central: ovn.Start(t, northd)}
	dist := filepath.Join("..", "..", "..", "dist")
	l.must(l.server.Establish(t.Context(), filepath.Join(dist, "crds")))
	l.must(l.server.Apply(t.Context(), filepath.Join(dist, "overlays/sandbox")))
	return l
}

// aggregating returns an API server that presents a front-proxy certificate to aggregated APIs.
func aggregating(t testing.TB) *apiserver.Server {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.New(dir, "front")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("front-proxy-client", pki.Identity{User: "front-proxy-client"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := apiserver.Run(context.WithoutCancel(t.Context()), apiserver.Options{Args: []string{
		// The Service is a name of loopback here, which has no endpoints.
		"--enable-aggregator-routing=false",
		"--requestheader-client-ca-file=" + authority.Pair("ca").Cert, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pair.Cert, "--proxy-client-key-file=" + pair.Key,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
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

func (l *lab) nbctl(args ...string) string {
	l.t.Helper()
	out, err := l.central.NBCtl(l.t.Context(), args...)
	l.must(err)
	return strings.TrimSpace(out)
}

func (l *lab) apply(objects string) {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "objects.yaml")
	l.must(os.WriteFile(file, []byte(objects), 0o600))
	l.kubectl("apply", "--server-side", "-f", file)
}

// checkNode is the agent of a node on which something differs until it is repaired.
func (l *lab) checkNode(_ context.Context, _ snapshot.AgentNode, q nodeapi.CheckQuestion) (out api.NodeCheckStatus, err error) {
	differs := []api.NodeDifference{
		{Owner: "Network/acme", Kind: api.NodeObjectMissing, Object: "routes", Want: "10.0.0.0/24 via 169.254.100.1"},
	}
	switch {
	case l.mended.Load():
	case q.Repair:
		l.mended.Store(true)
		out.Repaired = differs
	default:
		out.Differences = differs
	}
	return out, nil
}

// run has a controller lead, and inspection served beside it, until stop is called.
func (l *lab) run() {
	l.t.Helper()
	// Certificates are issued on nodes only.
	l.apply("{apiVersion: v1, kind: Node, metadata: {name: " + inspectNode + "}}")
	log := slog.New(slog.NewTextHandler(l.t.Output(), nil))
	as := l.server.As(controllerUser, "system:serviceaccounts")
	client, err := kubernetes.NewForConfig(as)
	l.must(err)
	objects, err := dynamic.NewForConfig(as)
	l.must(err)
	feed, err := kube.NewFeed(as, kube.Options{Logger: log, ShutOut: true})
	l.must(err)
	looks := l.server.As(inspectUser, "system:serviceaccounts", "atoll.dev:node:"+inspectNode)
	inspecting, err := kubernetes.NewForConfig(looks)
	l.must(err)
	looking, err := kube.NewFeed(looks, kube.Options{Logger: log, ShutOut: true})
	l.must(err)
	writer, err := kube.NewWriter(as, feed, kube.WriterOptions{Logger: log})
	l.must(err)
	settings, err := config.Read(l.t.Context(), as)
	l.must(err)
	northbound := ovsdb.Config{Addresses: []string{l.central.NBAddress()}, Log: log}
	engine := controller.New(controller.Config{
		Database: northbound, Defaults: defaults.Of(settings), Source: feed, Sink: writer, Epoch: rest.DefaultKubernetesUserAgent(), Log: log,
		Metrics: controller.NewMetrics(prometheus.NewRegistry()),
	})
	signer := certs.NewSigner(certs.SignerConfig{Client: client, Log: log})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	l.must(err)
	l.address = listener.Addr().String()
	north := ovsdb.Asker{Config: northbound, Database: ovsdb.NorthboundDatabase}
	south := ovsdb.Asker{Config: ovsdb.Config{Addresses: []string{l.central.SBAddress()}, Log: log}, Database: ovsdb.SouthboundDatabase}
	from := snapshot.Sources{
		Source: "inspection of the test", Client: inspecting,
		Held:       func() (snapshot.Held, error) { return snapshot.HeldBy(looking, settings) },
		Northbound: &north, Southbound: &south,
	}
	from.Mirror, from.Settings = snapshot.NewMirror(northbound), func() (config.Settings, error) {
		now := settings
		now.Flows.On = l.sampling.Load()
		return now, nil
	}
	l.t.Cleanup(from.Mirror.Close)
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	running.Go(func() { _ = looking.Run(ctx) })
	running.Go(func() { writer.Run(ctx) })
	running.Go(func() { signer.Run(ctx) })
	running.Go(func() { announce.Run(ctx, announce.Config{Objects: objects, Bundle: signer.InspectBundle, Log: log}) })
	asks, serves := l.t.TempDir(), l.t.TempDir()
	for name, dir := range map[string]string{certs.SignerInspect: asks, certs.SignerInspectServer: serves} {
		keeper := certs.NewKeeper(certs.KeeperConfig{Client: inspecting, Log: log, Signer: name, Node: inspectNode, Dir: dir})
		running.Go(func() { _ = keeper.Run(ctx) })
	}
	running.Go(func() {
		if err := engine.Run(ctx); err != nil {
			l.t.Error(err)
		}
	})
	serving, end := context.WithCancel(ctx)
	served := make(chan struct{})
	running.Go(func() {
		defer close(served)
		err := ServeOn(serving, listener, Config{
			Client: inspecting, Sources: from, Agents: AgentsBy(asks), FlowAgents: FlowAgentsBy(asks),
			AllNodes: &machines{names: []string{"n1"}}, CheckAgents: l.checkNode, Databases: Databases(north, south),
			TLS: certs.InspectServer(serves), Log: log,
		})
		if err != nil {
			l.t.Error(err)
		}
	})
	l.stop = func() { end(); <-served }
	l.t.Cleanup(func() { cancel(); running.Wait() })
	// The API server finds the Service by its name, since an endpoint cannot be a loopback address.
	_, port, err := net.SplitHostPort(l.address)
	l.must(err)
	l.kubectl("patch", "service", "-n", "atoll-system", certs.InspectName, "--type=merge", "-p",
		`{"spec":{"type":"ExternalName","externalName":"localhost","clusterIP":null,"clusterIPs":null,"selector":null}}`)
	l.kubectl("patch", "apiservice", announce.APIServiceName(), "--type=merge", "-p", fmt.Sprintf(`{"spec":{"service":{"port":%s}}}`, port))
	l.available("True")
}

// available waits until the APIService's condition Available has the given status.
func (l *lab) available(status string) {
	l.t.Helper()
	l.eventually("the APIService to be available: "+status, func() error {
		have := l.kubectl("get", "apiservice", announce.APIServiceName(),
			"-o", `jsonpath={.status.conditions[?(@.type=="Available")].status}{" "}{.status.conditions[?(@.type=="Available")].message}`)
		if !strings.HasPrefix(have, status+" ") {
			return fmt.Errorf("it says %s", have)
		}
		return nil
	})
}

func (l *lab) eventually(what string, try func() error) {
	l.t.Helper()
	wait.Eventually(l.t, wait.Patience, what, func(context.Context) error { return try() })
}

// kubeconfigOf returns a kubeconfig file that impersonates a user, with the rights of that user alone.
func (l *lab) kubeconfigOf(user string) string {
	l.t.Helper()
	c, err := clientcmd.LoadFromFile(l.server.Kubeconfig())
	l.must(err)
	for _, info := range c.AuthInfos {
		info.Impersonate, info.ImpersonateGroups = user, []string{"system:authenticated"}
	}
	file := filepath.Join(l.t.TempDir(), "kubeconfig")
	l.must(clientcmd.WriteToFile(*c, file))
	return file
}

// atoll runs the command line.
func (l *lab) atoll(kubeconfig string, args ...string) (status int, out, problems string) {
	l.t.Helper()
	var text, trouble bytes.Buffer
	cmd := cli.Command("atoll")
	cmd.SetOut(&text)
	cmd.SetErr(&trouble)
	if strings.HasSuffix(args[0], "ctl") {
		// Its later arguments are the program's.
		args = slices.Insert(slices.Clone(args), 1, "--kubeconfig", kubeconfig)
	} else {
		args = append(args, "--kubeconfig", kubeconfig)
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(l.t.Context())
	if status = cli.ExitStatus(err); status == 2 {
		trouble.WriteString(err.Error())
	}
	return status, text.String(), trouble.String()
}
