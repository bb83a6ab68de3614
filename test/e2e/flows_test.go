//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/netprobe/wire"
	"github.com/atoll-net/atoll/test/tier"
	"github.com/atoll-net/atoll/test/wait"
)

// flowsTenant is a Tenant with an admin, a Network and a namespace, all of one name. Each such Tenant has the same addresses. Only
// web may reach db.
const flowsTenant = `
apiVersion: atoll.dev/v1alpha1
kind: Tenant
metadata: {name: NAME}
spec:
  networkTemplate: {type: vpc, subnets: [{name: a, cidrs: [10.0.0.0/24]}]}
  admins: [{kind: ServiceAccount, namespace: NAME, name: jo}]
---
apiVersion: v1
kind: Namespace
metadata: {name: NAME, labels: {atoll.dev/tenant: NAME}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: NAME, name: db-from-web}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]
`

// TestFlowsByTheAPI: once sampling is on, a tenant's admin needs only a kubeconfig to learn who talks to whom in the tenant's
// Network, what is dropped and by which policy, and what a policy would have stopped. The admin learns nothing of another tenant's
// Network, whose pods have the same addresses and do the same. Once sampling is off, the answer says so. In make test-all the page
// of atoll ui is asked, too.
//
// It runs alone: it changes the cluster's settings.
func TestFlowsByTheAPI(t *testing.T) {
	const mine, others = "flows-a", "flows-b"
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pods, target := map[string][]*corev1.Pod{}, map[string]wire.Target{}
	for _, name := range []string{mine, others} {
		file := write(name, strings.ReplaceAll(flowsTenant, "NAME", name))
		cluster.Eventually(t, cluster.Patience, "make tenant "+name, func(ctx context.Context) error {
			out, err := env.Program(ctx, "kubectl", "apply", "--server-side", "-f", file).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
		t.Cleanup(func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if out, err := env.Program(ctx, "kubectl", "delete", "--wait=false", "-f", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		var made []*corev1.Pod
		for i, app := range []string{"db", "web", "stranger"} {
			made = append(made,
				env.Pod(t, cluster.PodSpec{
					Namespace: name, Name: app, App: app, Node: []string{"n2", "n1", "n3"}[i], NICs: fmt.Sprintf(`[{"ip":"10.0.0.%d"}]`, 20+i),
				}))
		}
		pods[name] = made
	}
	for name := range pods {
		pods[name] = env.WaitReady(t, pods[name]...)
		target[name] = wire.Target{Address: cluster.AttachmentOf(t, pods[name][0]).Addresses[0].Addr(), Protocol: wire.TCP}
	}
	if target[mine].Address != target[others].Address {
		t.Fatal("this test shows nothing: the two have other addresses")
	}
	jo, admin := env.named(t, mine, "jo", "admin"), env.Box.Kubeconfig()
	if out, err := env.atoll(t.Context(), admin,
		"flows"); err == nil ||
		!strings.Contains(err.Error(),
			"flows.sampling of the AtollConfig is Off. Next, for who administers the cluster: kubectl patch atollconfig") {
		t.Errorf("before it is on: %v\n%s", err, out)
	}
	t.Cleanup(func() { configure(t, `{"spec":{"flows":{"sampling":"Off"}}}`) })
	configure(t, `{"spec":{"flows":{"sampling":"On"}}}`)
	awaitSettings(t, "InForce")

	// What is so when all nodes have told of both.
	send := func() {
		t.Helper()
		for name, p := range pods {
			arrives(t, p[1], p[0], target[name], nil)
			silent(t, p[2], target[name])
		}
	}
	ask := func(ctx context.Context, kubeconfig string, args ...string) (list api.FlowList, err error) {
		out, err := env.atoll(ctx, kubeconfig, append(args, "--since", "1h", "-o", "json")...)
		if decoded := json.NewDecoder(strings.NewReader(out)).Decode(&list); decoded != nil {
			return list, errors.Join(err, decoded, errors.New(out))
		}
		return list, err
	}
	is := func(network, from, verdict, policy string) func(api.Flow) bool {
		return func(f api.Flow) bool {
			return f.Network == network &&
				f.From == (api.FlowEnd{Address: f.From.Address, Kind: api.FlowPod, Name: network + "/" + from, Network: network}) &&
				f.To.Name == network+"/db" && f.To.Address == target[network].Address.String() &&
				f.Verdict == verdict && f.Policy == policy && f.Direction == "Ingress" && f.Protocol == "tcp" && f.Port == wire.DefaultPort &&
				f.Node == "n2" && f.Connections > 0
		}
	}
	seen := func(name string) (allowed, dropped func(api.Flow) bool) {
		return is(name, "web", "allow", "NetworkPolicy/"+name+"/db-from-web"), is(name, "stranger", "drop", nb.Isolation)
	}
	// Sampling begins some time after it was asked for.
	cluster.Eventually(t, 2*time.Minute, "the admin of the cluster sees both", func(ctx context.Context) error {
		send()
		all, err := ask(ctx, admin, "flows")
		for name := range pods {
			allowed, dropped := seen(name)
			if !slices.ContainsFunc(all.Items, allowed) || !slices.ContainsFunc(all.Items, dropped) {
				return errors.Join(err, fmt.Errorf("of %s nothing is told in %+v", name, all))
			}
		}
		return err
	})
	allowed, dropped := seen(mine)
	for _, scope := range [][]string{{mine}, nil, {"-n", mine}} {
		flows, err := ask(t.Context(), jo, append([]string{"flows"}, scope...)...)
		drops, err2 := ask(t.Context(), jo, append([]string{"drops"}, scope...)...)
		if err := errors.Join(err, err2); err != nil {
			t.Errorf("%v: %v", scope, err)
		}
		if !slices.ContainsFunc(flows.Items, allowed) || !slices.ContainsFunc(flows.Items, dropped) ||
			!slices.ContainsFunc(drops.Items, dropped) || slices.ContainsFunc(drops.Items, allowed) {
			t.Errorf("%v: he is told of flows %+v and drops %+v", scope, flows, drops)
		}
		for _, f := range slices.Concat(flows.Items, drops.Items) {
			if text, _ := json.Marshal(f); f.Network != mine || strings.Contains(string(text), others) {
				t.Errorf("%v: he is told of %s", scope, text)
			}
		}
	}
	for _, scope := range [][]string{{others}, {"-n", others}} {
		if out, err := env.atoll(t.Context(), jo, append([]string{"flows"}, scope...)...); err == nil ||
			!strings.Contains(err.Error(), "is forbidden") || out != "" {
			t.Errorf("of another's he is told %s, %v", out, err)
		}
	}
	if out, err := env.atoll(t.Context(), jo, "flows", mine); err != nil || !strings.Contains(out, mine+"/web") ||
		!strings.Contains(out, "told by 3 nodes") {
		t.Errorf("as a table: %s %v", out, err)
	}
	if tier.All() {
		flowsOnThePage(t, send, map[string]string{jo: mine, admin: others}, jo, others)
	}

	// What comes is told as it comes.
	ctx, stop := context.WithCancel(wait.Context(t, wait.Patience))
	defer stop()
	followed := make(chan error, 1)
	go func() {
		out, err := env.atoll(ctx, jo, "drops", mine, "--follow", "-o", "json")
		followed <- errors.Join(err, errors.New(out))
	}()

	// The policy without its rule would have stopped web; applied it is not.
	closed := write("closed.yaml",
		strings.ReplaceAll(
			`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: NAME, name: db-from-web}, spec: {podSelector: {matchLabels: {app: db}}}}`, "NAME", mine))
	out, _ := env.atoll(t.Context(), jo, "policy", "try", "-f", closed, "-o", "json")
	var trial api.PolicyTrial
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&trial); err != nil || trial.Status.Flows == nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f := trial.Status.Flows; f.Problem != "" || f.Stopped != 1 || f.Allowed != 0 || len(f.Changes) != 1 ||
		f.Changes[0].Flow.From.Name != mine+"/web" || f.Changes[0].After.Allowed {
		t.Errorf("a policy without rules would have stopped %+v", f)
	}
	opened := write("opened.yaml",
		strings.ReplaceAll(
			`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: NAME, name: db-from-web}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{}]}}`, "NAME", mine))
	if out, _ := env.atoll(t.Context(), jo, "policy", "try", "-f", opened); !strings.Contains(out,
		"it would have stopped 0, and newly allowed 1.") {
		t.Errorf("one that lets all in: %s", out)
	}

	send()
	configure(t, `{"spec":{"flows":{"sampling":"Off"}}}`)
	awaitSettings(t, "InForce")
	select {
	case err := <-followed:
		if text := err.Error(); !strings.Contains(text, "flows.sampling of the AtollConfig is Off") ||
			!strings.Contains(text, `"name":"`+mine+`/stranger"`) || strings.Contains(text, others) {
			t.Errorf("who follows is told %s", text)
		}
	case <-ctx.Done():
		t.Error("who follows is not told that nothing is sampled any more")
	}
	var said error
	wait.Within(t, 10*time.Second, "atoll drops once it is off", func() {}, func(ctx context.Context) error {
		out, said = env.atoll(ctx, jo, "drops", mine)
		return nil
	})
	if said == nil || !strings.Contains(said.Error(), "flows.sampling of the AtollConfig is Off") {
		t.Errorf("once it is off: %v\n%s", said, out)
	}
}
