//go:build integration

package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/test/wait"
)

// TestRun goes the whole way of a pod: the runtime executes the plugin, which asks a running agent, which
// learns of the controller's decision from the API while it waits.
func TestRun(t *testing.T) {
	n := newNode(t)
	n.playController()
	scheme := fake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	api := fake.NewSimpleMetadataClient(scheme)
	networks := schema.GroupVersionResource{Group: "atoll.dev", Version: "v1alpha1", Resource: "networks"}
	settings := schema.GroupVersionResource{Group: "atoll.dev", Version: "v1alpha1", Resource: "atollconfigs"}
	reports := schema.GroupVersionResource{Group: "atoll.dev", Version: "v1alpha1", Resource: "nodereports"}
	clients := follow.Clients{
		Metadata: api,
		Kube:     kubefake.NewClientset(),
		Networks: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{networks: "NetworkList", reports: "NodeReportList", settings: "AtollConfigList"}),
	}
	config := Config{
		Node: "node1", OVSDB: n.db, Bridge: "br-int",
		Socket:         filepath.Join(n.dir, "run", "cni.sock"),
		ConfDir:        filepath.Join(n.dir, "net.d"),
		BinDir:         filepath.Join(n.dir, "bin"),
		Plugin:         os.Args[0],
		MetricsAddress: "127.0.0.1:19411",
		ScrapeAddress:  "127.0.0.2:19411",
		Bounds:         testBounds(),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	confThere := fileAppears(t, config.ConfDir, confName)
	go func() { ended <- Run(ctx, config, clients, slog.New(slog.NewTextHandler(testWriter{t}, nil))) }()
	<-confThere

	p := &testPod{tb: t, nic: attachmentOf(5)}
	p.request.ContainerID, p.request.Interface, p.request.Netns = "c0ffee", "eth0", newNetns(t)
	p.request.Pod.Namespace, p.request.Pod.Name, p.request.Pod.UID = "red", "one", "uid-1"
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "one", UID: types.UID("uid-1")},
	}
	client := api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("red").(fake.MetadataClient)
	_, err := client.CreateFake(object, metav1.CreateOptions{})
	must(t, err)

	for _, version := range []string{"1.1.0", "0.4.0"} {
		if out, err := execPlugin(config, p, "VERSION", version); err != nil {
			t.Errorf("VERSION: %v %s", err, out)
		}
	}
	if out, err := execPlugin(config, p, "STATUS", "1.1.0"); err != nil {
		t.Errorf("STATUS: %v %s", err, out)
	}
	added := make(chan []byte)
	go func() {
		out, err := execPlugin(config, p, "ADD", "1.1.0")
		if err != nil {
			t.Errorf("ADD: %v", err)
		}
		added <- out
	}()
	// The controller decides.
	nic := p.nic
	nic.PodUID = p.request.Pod.UID
	text, err := json.Marshal([]model.Attachment{nic})
	must(t, err)
	decided := object.DeepCopy()
	decided.Annotations = map[string]string{model.AnnotationAttachments: string(text)}
	_, err = client.UpdateFake(decided, metav1.UpdateOptions{})
	must(t, err)
	result := current.Result{}
	out := <-added
	if err := json.Unmarshal(out, &result); err != nil || len(result.IPs) != 2 || result.IPs[0].Address.IP.String() != "10.0.0.5" {
		t.Fatalf("ADD printed %s (error %v)", out, err)
	}
	for _, step := range []struct{ command, version string }{
		{"CHECK", "1.0.0"}, {"ADD", "0.4.0"}, {"ADD", "0.3.1"}, {"GC", "1.1.0"}, {"DEL", "1.0.0"}, {"DEL", "1.0.0"},
	} {
		if out, err := execPlugin(config, p, step.command, step.version); err != nil {
			t.Errorf("%s %s: %v %s", step.command, step.version, err, out)
		}
	}
	nothingOf(t, n, p)
	metrics := get(t, "http://"+config.MetricsAddress+"/metrics")
	for _, want := range []string{
		`atoll_agent_add_phase_seconds_count{phase="installed"} 3`, `atoll_agent_requests_total{code="0",command="ADD"} 3`,
		"atoll_agent_ovsdb_connected 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	// A scraper without credentials is refused. (The rest is tested in pkg/kube/scrape.)
	scraper := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := scraper.Get("https://" + config.ScrapeAddress + "/metrics")
	must(t, err)
	answer.Body.Close()
	scraper.CloseIdleConnections()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("somebody scrapes, and is answered with %d", answer.StatusCode)
	}
	stop()
	must(t, <-ended)
	if _, err := os.Stat(filepath.Join(config.ConfDir, confName)); err != nil {
		t.Errorf("the network configuration went with the agent: %v", err)
	}
}

// execPlugin does what a container runtime does.
func execPlugin(config Config, p *testPod, command, version string) ([]byte, error) {
	cmd := exec.Command(filepath.Join(config.BinDir, pluginName))
	cmd.Env = append(os.Environ(), envPlugin+"=1", "CNI_COMMAND="+command, "CNI_CONTAINERID="+p.request.ContainerID,
		"CNI_NETNS="+p.request.Netns, "CNI_IFNAME=eth0", "CNI_PATH="+config.BinDir,
		fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s;K8S_POD_INFRA_CONTAINER_ID=%s",
			p.request.Pod.Namespace, p.request.Pod.Name, p.request.Pod.UID, p.request.ContainerID))
	valid := fmt.Sprintf(`[{"containerID":%q,"ifname":"eth0"}]`, p.request.ContainerID)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(
		`{"cniVersion":%q,"name":"atoll","type":"atoll-cni","socket":%q,"cni.dev/valid-attachments":%s}`, version, config.Socket, valid))
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.Bytes(), err
}

// fileAppears is closed once a file of the name is in dir.
func fileAppears(t *testing.T, dir, name string) <-chan struct{} {
	t.Helper()
	there := make(chan struct{})
	go func() { // ends with the test
		err := wait.For(t.Context(), wait.Patience, func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, name))
			return err
		})
		if err == nil {
			close(there)
		}
	}()
	return there
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url) //nolint:noctx // a fixed address.
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(body)
}
