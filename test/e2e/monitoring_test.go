//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/monitoring"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
	"github.com/atoll-net/atoll/test/tier"
)

const (
	// operator is whose CustomResourceDefinitions the manifests of dist/monitoring are for, and operatorSum what Go's checksum
	// database says of it.
	operator    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	operatorSum = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
	// prometheusAddress is inside the control plane's namespace.
	prometheusAddress = "127.0.0.1:19090"
)

// TestMonitoring: the API server takes dist/monitoring by the operator's own definitions. A Prometheus with the configuration
// that dist ships, but for who it is when it looks for its targets, and with a ServiceAccount's token scrapes the controller,
// inspection and all agents; each metric that alerts and the dashboard ask for is among what it gets; no rule fails; and in make
// test-all, when the controller is away, the alert says so.
//
// It runs alone: it takes the controller away.
func TestMonitoring(t *testing.T) {
	const ns = "monitoring"
	programs, err := parts.GatherMonitoring(t.Context(), parts.Need{Cache: sandbox.DefaultCache}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	operatorTakes(t)
	somethingToTell(t, ns)
	box := prometheusBox(t, ns)
	run, err := env.Box.Command(t.Context(), sandbox.Central, programs.Prometheus,
		"--config.file="+filepath.Join(box, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(box, "data"),
		"--web.listen-address="+prometheusAddress)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(box, "log"))
	if err != nil {
		t.Fatal(err)
	}
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the end of Prometheus' log:\n%s", text[max(0, len(text)-4000):])
		}
	})

	cluster.Eventually(t, cluster.Patience, "all targets are scraped", allUp)
	cluster.Eventually(t, cluster.Patience, "all metrics are there that are asked for", exported)
	cluster.Eventually(t, cluster.Patience, "no rule fails", func(ctx context.Context) error {
		_, err := rulesNow(ctx)
		return err
	})
	// What was looked at before the first scrape says that nobody leads.
	cluster.Eventually(t, cluster.Patience, "somebody leads, and one pod is refused", func(ctx context.Context) error {
		states, err := rulesNow(ctx)
		if err == nil && (states["AtollNoLeader"] != "inactive" || states["AtollPodsRefused"] != "pending") {
			err = fmt.Errorf("AtollNoLeader is %s, and AtollPodsRefused %s", states["AtollNoLeader"], states["AtollPodsRefused"])
		}
		return err
	})
	if tier.All() {
		alertWithoutController(t)
	}
}

// alertWithoutController takes the controller away: the alert that nobody leads sees it, and sees it come back.
func alertWithoutController(t *testing.T) {
	t.Helper()
	start := env.Stop(t, cluster.Daemon{Place: sandbox.Central, Name: "atoll-controller"})
	cluster.Eventually(t, cluster.Patience, "the alert sees that nobody leads", func(ctx context.Context) error {
		states, err := rulesNow(ctx)
		// AtollControllerAway is about a pod that does not answer, and none is left here.
		if err == nil && states["AtollNoLeader"] == "inactive" {
			err = errors.New("AtollNoLeader is inactive")
		}
		return err
	})
	start()
	cluster.Eventually(t, cluster.Patience, "somebody leads again", func(ctx context.Context) error {
		states, err := rulesNow(ctx)
		if err == nil && states["AtollNoLeader"] != "inactive" {
			err = errors.New("AtollNoLeader is " + states["AtollNoLeader"])
		}
		return err
	})
}

// operatorTakes has the API server look at dist/monitoring by the operator's definitions.
func operatorTakes(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operator)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fetch the operator's definitions: %v\n%s", err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != operatorSum {
		t.Fatalf("fetch the operator's definitions: %+v %v", module, err)
	}
	for _, kind := range []string{"servicemonitors", "prometheusrules"} {
		file := filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml")
		env.Kubectl(t, "apply", "--server-side", "-f", file)
		t.Cleanup(func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if out, err := env.Program(ctx, "kubectl", "delete", "-f", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		env.Kubectl(t, "wait", "--for=condition=Established", "crd/"+kind+".monitoring.coreos.com")
	}
	env.Kubectl(t, "apply", "--server-side", "--validate=strict", "-k", "dist/monitoring")
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if out, err := env.Program(ctx, "kubectl", "delete", "--ignore-not-found", "-k", "dist/monitoring").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// somethingToTell makes a policy and pods: one starts, one is refused. So there is something of all that metrics are about.
func somethingToTell(t *testing.T, ns string) {
	t.Helper()
	env.Network(t, ns, v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, ns, ns)
	_, err := env.Clients.Kube.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "nothing-in"}, Spec: networkingv1.NetworkPolicySpec{},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{
		env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "client", Node: "n1"}), env.Pod(t, cluster.PodSpec{
			Namespace: ns, Name: "server", Node: "n1",
		}),
	}
	now := env.WaitReady(t, pods...)
	env.WaitEvent(t, env.Pod(t, cluster.PodSpec{Namespace: ns, Name: "lost", Network: "nowhere"}), model.ReasonNetworkNotFound)
	_, _ = env.Exec(t.Context(), ns, now[0].Name, nil, "/netprobe", "resolve", "server."+ns) // its packets are counted, whatever it gets
}

// prometheusBox is a directory with what a Prometheus starts with: the configuration and the rules that dist ships, a token, and
// where the targets are.
func prometheusBox(t *testing.T, ns string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "atoll-prometheus-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env.Kubectl(t, "create", "serviceaccount", "-n", ns, "prometheus")
	env.Kubectl(t, "create", "clusterrolebinding", "scrapes-atoll", "--clusterrole=atoll-metrics-reader", "--serviceaccount="+ns+":prometheus")
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.Clients.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, "scrapes-atoll", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	token, err := env.Clients.Kube.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "prometheus", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shipped := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(env.Root, "dist/monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var config map[string]any
	if err := yaml.Unmarshal(shipped("prometheus.yaml"), &config); err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}
	for _, job := range config["scrape_configs"].([]any) {
		job := job.(map[string]any)
		// This Prometheus is no pod, which finds the API server by its ServiceAccount.
		for _, found := range job["kubernetes_sd_configs"].([]any) {
			found.(map[string]any)["kubeconfig_file"] = env.Box.Kubeconfig()
		}
		job["authorization"].(map[string]any)["credentials_file"] = filepath.Join(dir, "token")
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"prometheus.yaml": text, "rules.yaml": shipped("rules.yaml"), "token": []byte(token.Status.Token),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// askPrometheus reads what the HTTP API of Prometheus says in data.
func askPrometheus(ctx context.Context, path string, into any) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return env.DialFrom(ctx, sandbox.Central, network, address)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAddress+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &envelope); err != nil || envelope.Status != "success" {
		return fmt.Errorf("%s: %s %s (%w)", path, answer.Status, envelope.Error, err)
	}
	return json.Unmarshal(envelope.Data, into)
}

// allUp: the controller and the agent of each node are scraped.
func allUp(ctx context.Context) error {
	var got struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := askPrometheus(ctx, "query?query="+url.QueryEscape("up == 1"), &got); err != nil {
		return err
	}
	if want := 2 + len(env.Box.Nodes()); len(got.Result) != want {
		return fmt.Errorf("%d targets of %d are up: %v", len(got.Result), want, got.Result)
	}
	return nil
}

// exported compares what alerts and panels ask for with what was scraped.
func exported(ctx context.Context) error {
	uses, err := monitoring.Used(filepath.Join(env.Root, "dist/monitoring"))
	if err != nil {
		return err
	}
	var have []string
	if err := askPrometheus(ctx, "label/__name__/values", &have); err != nil {
		return err
	}
	var missing []string
	for _, use := range uses {
		if !slices.Contains(have, use.Metric) {
			missing = append(missing, use.Metric+" ("+strings.Join(use.Users, ", ")+")")
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no sample of %s", strings.Join(missing, "; "))
	}
	return nil
}

// rulesNow is the state of each alert: inactive, pending or firing. It is an error when one could not be evaluated.
func rulesNow(ctx context.Context) (map[string]string, error) {
	var got struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	if err := askPrometheus(ctx, "rules?type=alert", &got); err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, g := range got.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				return nil, fmt.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError)
			}
			states[r.Name] = r.State
		}
	}
	if len(states) == 0 {
		return nil, errors.New("no rules are loaded")
	}
	return states, nil
}
