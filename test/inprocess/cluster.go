package inprocess

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// patience is how long the cluster may take to be as its objects ask for: a second, on a machine that has nothing else to do.
const patience = time.Minute

// Options of a cluster.
type Options struct {
	// Objects are in YAML, several documents. Pods in them run, and are Ready.
	Objects string
	// Schema is the file of the northbound database's, test/rowgen/ovn-nb.ovsschema.
	Schema string
	// Ill: something differs on node n2 until it is repaired, a port in OVN is of nobody, and the agent of n2 tells of no flows.
	Ill bool
	// Mute: no agent tells of flows, since each cannot read the southbound database.
	Mute bool
	// Apart: inspection has a process of its own, as it is installed. TestMain of the test's package has to call ServeApart.
	Apart bool
}

// Cluster is one that runs until the end of its test.
type Cluster struct {
	t       testing.TB
	dir     string
	objects *objects
	served  *httptest.Server
	away    *httptest.Server
	feed    *kube.Feed
	// inspection is in a process of its own; nil: it is in this one.
	inspection *apart
	// northbound is OVN's database.
	northbound ovsdb.Asker
}

// Start runs a cluster until the end of the test, and returns when the controller has done what its objects ask for.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	// A path that is short enough for a socket's.
	dir, err := os.MkdirTemp("", "atoll")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Cluster{t: t, dir: dir, objects: newObjects()}
	c.load(o.Objects)
	database, stop, err := newDatabase(dir, o.Schema)
	c.must(err)
	t.Cleanup(stop)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.must(err)
	to, err := url.Parse("https://" + listener.Addr().String())
	c.must(err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	proxy.FlushInterval, proxy.ErrorLog = -1, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c.served, c.away = httptest.NewUnstartedServer(&server{c.objects, proxy}), httptest.NewUnstartedServer(&server{c.objects, nil})
	for _, s := range []*httptest.Server{c.served, c.away} {
		// Programs end with connections that they have begun.
		s.Config.ErrorLog = proxy.ErrorLog
		s.StartTLS()
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	}
	c.run(listener, database, o)
	c.settle(database, o.Ill)
	return c
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// load creates objects.
func (c *Cluster) load(text string) {
	c.t.Helper()
	for i, document := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		c.must(yaml.Unmarshal([]byte(document), &object.Object))
		if len(object.Object) == 0 {
			continue
		}
		// Each is younger than the one before: of pods of one node, who came first has the first address.
		object.SetCreationTimestamp(meta.NewTime(time.Now().Add(-2*time.Hour + time.Duration(i)*time.Second)))
		_, err := c.objects.create(placeOf(object), object, false)
		c.must(err)
	}
}

func placeOf(object *unstructured.Unstructured) place {
	kind := object.GroupVersionKind()
	return place{schema.GroupResource{Group: kind.Group, Resource: resourceOf(kind.Kind)}, object.GetNamespace(), object.GetName()}
}

// config is how a user reaches the cluster.
func (c *Cluster) config(user string) *rest.Config {
	return &rest.Config{Host: c.served.URL, BearerToken: user, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: authority(c.served)}}
}

// authority is what a server is known by.
func authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// Kubeconfig returns the path of a file by which a user reaches the cluster. The user's namespace is red.
func (c *Cluster) Kubeconfig(user string) string { return c.kubeconfig(user, user, c.served.URL) }

// KubeconfigAway is one where nobody answers for the API inspect.atoll.dev.
func (c *Cluster) KubeconfigAway(user string) string {
	return c.kubeconfig(user+"-away", user, c.away.URL)
}

func (c *Cluster) kubeconfig(name, user, address string) string {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"red"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"u","user":{"token":%q}}]}`, address,
		base64.StdEncoding.EncodeToString(authority(c.served)), user)
	c.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// run has a controller lead, and inspection served.
func (c *Cluster) run(listener net.Listener, database database, o Options) {
	c.t.Helper()
	log := slog.New(slog.DiscardHandler)
	as := c.config(controllerUser)
	client, err := kubernetes.NewForConfig(as)
	c.must(err)
	c.feed, err = kube.NewFeed(as, kube.Options{Logger: log, ShutOut: true})
	c.must(err)
	writer, err := kube.NewWriter(as, c.feed, kube.WriterOptions{Logger: log})
	c.must(err)
	settings, err := settingsOfAll()
	c.must(err)
	northbound := ovsdb.Config{Addresses: []string{database.address}, Log: log}
	engine := controller.New(controller.Config{
		Database: northbound, Defaults: defaults.Of(settings), Source: c.feed, Sink: writer, Epoch: "in process", Log: log,
		Metrics: controller.NewMetrics(prometheus.NewRegistry()),
	})
	signer := certs.NewSigner(certs.SignerConfig{Client: client, Log: log})
	c.northbound = ovsdb.Asker{Config: northbound, Database: ovsdb.NorthboundDatabase}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	runs := []func() error{
		func() error { return c.feed.Run(ctx) }, func() error { writer.Run(ctx); return nil }, func() error { signer.Run(ctx); return nil },
		func() error { return engine.Run(ctx) },
	}
	question := asked{Host: as.Host, Token: as.BearerToken, CA: as.CAData, Database: database.address, Ill: o.Ill, Mute: o.Mute}
	if o.Apart {
		c.inspection, err = startApart(c.t.Context(), question, listener)
		c.must(err)
		c.t.Cleanup(c.inspection.kill)
	} else {
		here, err := newInspection(question, c.served.TLS.Certificates)
		c.must(err)
		runs = append(runs, func() error { return here.serve(ctx, listener) })
	}
	var running sync.WaitGroup
	for _, run := range runs {
		running.Go(func() {
			if err := run(); err != nil && ctx.Err() == nil {
				c.t.Error(err)
			}
		})
	}
	c.t.Cleanup(func() { cancel(); running.Wait() })
}

// settle waits until the controller has given addresses and written rows, has pods run under their faces and their ports bound,
// and waits until inspection answers.
func (c *Cluster) settle(database database, ill bool) {
	c.t.Helper()
	nodes, ports := []string{}, map[string]string{}
	c.eventually("nodes, pods and Networks to be as the objects ask for", func() error {
		held := c.feed.Held()
		for name := range held.Networks {
			if status, known := c.feed.Shown(name, held.Networks[name].UID); !known || status.Phase != model.Ready {
				return fmt.Errorf("phase of Network %s is %q", name, status.Phase)
			}
		}
		for name, node := range held.Nodes {
			if node.Assigned == nil {
				return fmt.Errorf("node %s has no faces", name)
			}
		}
		for key, pod := range held.Pods {
			if len(pod.Assigned) == 0 || len(pod.Assigned[0].Faces) == 0 {
				return fmt.Errorf("pod %s has no address", key)
			}
		}
		if len(held.Pods) == 0 || !c.feed.Synced() {
			return errors.New("it has no pods yet")
		}
		return nil
	})
	held := c.feed.Held()
	for name := range held.Nodes {
		nodes = append(nodes, name)
	}
	for key, pod := range held.Pods {
		ports[model.AttachmentKey{Pod: key, Interface: pod.Assigned[0].Interface}.PortName()] = pod.Node
		c.start(key, pod)
	}
	c.must(database.bind(nodes, ports))
	if ill {
		c.must(database.stray("red/front", "ghost", "0a:58:0a:00:00:63 10.0.0.77"))
	}
	operator, err := kubernetes.NewForConfig(c.config(Operator))
	c.must(err)
	c.eventually("inspection to answer", func() error {
		raw, err := operator.Discovery().RESTClient().Get().AbsPath("/apis", api.GroupName, api.Version, api.ResourcePods).Do(c.t.Context()).Raw()
		var list api.PodList
		if err == nil {
			err = json.Unmarshal(raw, &list)
		}
		if err == nil && len(list.Items) < len(held.Pods) {
			err = fmt.Errorf("it knows %d pods", len(list.Items))
		}
		for _, pod := range list.Items {
			if len(pod.Status.Addresses) == 0 {
				err = fmt.Errorf("it knows no address of pod %s", pod.Name)
			}
		}
		return err
	})
}

// start has a pod run, as its kubelet does, under its faces.
func (c *Cluster) start(key model.PodKey, pod *model.Pod) {
	c.t.Helper()
	p := place{schema.GroupResource{Resource: "pods"}, key.Namespace, key.Name}
	_, err := c.objects.update(p, false, func(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		var faces []any
		for _, face := range pod.Assigned[0].Faces {
			faces = append(faces, map[string]any{"ip": face.String()})
		}
		object.Object["status"] = map[string]any{
			"phase": "Running", "podIP": faces[0].(map[string]any)["ip"], "podIPs": faces,
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		}
		return object, nil
	})
	c.must(err)
}

func (c *Cluster) eventually(what string, try func() error) {
	c.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(c.t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		c.t.Fatalf("wait for %s: %v: %v", what, err, last)
	}
}

// KubeconfigGone is one where nobody listens.
func (c *Cluster) KubeconfigGone() string {
	return c.kubeconfig("gone", Operator, "https://127.0.0.1:1")
}
