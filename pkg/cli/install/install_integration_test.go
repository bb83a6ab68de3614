//go:build integration

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// clusterOf is a cluster behind a real API server: nothing makes pods there, and no namespace ever goes.
func clusterOf(t *testing.T, cfg *rest.Config) *Cluster {
	t.Helper()
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return NewCluster(objects, found)
}

func count(all []Outcome, what outcome) (n int) {
	for _, one := range all {
		if one.What == what {
			n++
		}
	}
	return n
}

// TestAgainstAServer: a dry run writes nothing; an installation writes all, in an order that the server takes; once more, nothing
// changes; what a later version has no more goes, and what is others' stays.
func TestAgainstAServer(t *testing.T) {
	server := apiserver.Start(t)
	c := clusterOf(t, server.RESTConfig())
	options := Options{Source: Source{Overlay: "ha"}, Values: Values{Tag: "v0.1.0", DNSAddresses: plain().DNSAddresses}, Timeout: time.Minute}
	plan, err := Prepare(t.Context(), c, options)
	if err != nil {
		t.Fatal(err)
	}
	// The server tells its range of Services.
	if len(plan.ranges.services) == 0 || plan.ranges.services[0] == plain().ServiceCIDRs[0] {
		t.Errorf("Services' ranges %v are not the server's", plan.ranges.services)
	}
	outcomes, err := DryRun(t.Context(), c, plan)
	if err != nil || count(outcomes, created) != len(plan.Objects) {
		t.Fatalf("a dry run would create %d of %d, %v", count(outcomes, created), len(plan.Objects), err)
	}
	if ns, err := c.get(t.Context(), namespaces, "", system); err != nil || ns != nil {
		t.Fatalf("a dry run has written: %v, %v", ns, err)
	}

	var steps notes
	outcomes, err = Run(t.Context(), c, plan, options, AtOnce, &steps)
	if err != nil || count(outcomes, created) != len(plan.Objects) {
		t.Fatalf("created %d of %d, %v\n%q", count(outcomes, created), len(plan.Objects), err, steps.said)
	}
	if n := StepsOf(plan, options); n > len(steps.said) {
		t.Errorf("%d steps were foretold, and %q said", n, steps.said)
	}
	for _, again := range []func() ([]Outcome, error){
		func() ([]Outcome, error) { return DryRun(t.Context(), c, plan) },
		func() ([]Outcome, error) { return Run(t.Context(), c, plan, options, AtOnce, &steps) },
	} {
		outcomes, err = again()
		if err != nil || count(outcomes, unchanged) != len(plan.Objects) {
			t.Errorf("once more: %s, %v", Summary(outcomes), err)
		}
	}
	if installed, err := c.Installed(t.Context()); err != nil || installed == nil || installed.Version != "v0.1.0" {
		t.Errorf("installed: %+v, %v", installed, err)
	}
	if source, err := LastSource(t.Context(), c); err != nil || source.Overlay != "ha" {
		t.Errorf("installed from %v, %v", source, err)
	}

	t.Run("a later version", func(t *testing.T) { laterVersion(t, c, options) })
	t.Run("preflight", func(t *testing.T) { rightsAndVersions(t, server, c, options) })
	t.Run("removal", func(t *testing.T) { removal(t, c) })
}

func laterVersion(t *testing.T, c *Cluster, options Options) {
	options.Values.Tag = "v0.2.0"
	plan, err := Prepare(t.Context(), c, options)
	if err != nil {
		t.Fatal(err)
	}
	// It has no monitoring reader, no definition of Tenants, of which there is one, and no default Network.
	lacks := func(o *unstructured.Unstructured) bool {
		return o.GetName() == "atoll-metrics-reader" || o.GetName() == "tenants.atoll.dev" || isKind(o, "atoll.dev", "Network")
	}
	before := len(plan.Objects)
	plan.Objects = slices.DeleteFunc(plan.Objects, lacks)
	if before-len(plan.Objects) != 3 {
		t.Fatalf("%d objects of these names", before-len(plan.Objects))
	}
	tenant := object("atoll.dev/v1alpha1", "Tenant", "", "acme", nil)
	tenant.Object["spec"] = map[string]any{}
	if _, err := c.apply(t.Context(), tenant, forReal); err != nil {
		t.Fatal(err)
	}
	// A ConfigMap of somebody who copied the label, elsewhere.
	stranger := object("v1", "ConfigMap", "default", "stranger", map[string]string{setMemberLabel: setID()})
	if _, err := c.apply(t.Context(), stranger, forReal); err != nil {
		t.Fatal(err)
	}
	outcomes, err := Run(t.Context(), c, plan, options, OneByOne, &notes{})
	if err != nil || count(outcomes, pruned) != 1 || count(outcomes, kept) != 2 {
		t.Fatalf("%s, %v", Summary(outcomes), err)
	}
	for _, one := range outcomes {
		if one.What == pruned && one.Object != "ClusterRole atoll-metrics-reader" {
			t.Errorf("pruned %s", one.Object)
		}
	}
	for _, o := range []struct {
		gk        schema.GroupKind
		ns, name  string
		wantThere bool
	}{
		{schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, "", "atoll-metrics-reader", false},
		{crds, "", "tenants.atoll.dev", true},
		{tenantKind, "", "acme", true},
		{networkKind, "", "default", true},
		{configMaps, "default", "stranger", true},
	} {
		found, err := c.get(t.Context(), o.gk, o.ns, o.name)
		if err != nil || (found != nil) != o.wantThere {
			t.Errorf("%s %s: there %t, %v", o.gk.Kind, o.name, found != nil, err)
		}
	}
	if installed, err := c.Installed(t.Context()); err != nil || installed.Version != "v0.2.0" {
		t.Errorf("installed: %+v, %v", installed, err)
	}
}

func rightsAndVersions(t *testing.T, server *apiserver.Server, c *Cluster, options Options) {
	plan, err := Prepare(t.Context(), c, options)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := func(c *Cluster) map[string]Check {
		checks, err := Preflight(t.Context(), c, plan)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]Check{}
		for _, one := range checks {
			out[one.Name] = one
		}
		return out
	}
	admin := verdicts(c)
	for name, want := range map[string]Verdict{
		"your rights": OK, "admission policies": OK, "Services' ranges": OK, CheckInstalled: Refuse, "control plane nodes": Refuse,
	} {
		if got := admin[name]; got.Verdict != want {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	reader := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "reader", nil)
	reader.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
	reader.Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}}
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader", nil)
	role.Object["rules"] = []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"get", "list"}}}
	if _, err := c.applyAll(t.Context(), []*unstructured.Unstructured{role, reader}); err != nil {
		t.Fatal(err)
	}
	if got := verdicts(clusterOf(t, server.As("jane")))["your rights"]; got.Verdict != Refuse || !strings.Contains(got.Found, "clusterrole") {
		t.Errorf("jane, who only reads: %+v", got)
	}
}

// removal takes away what goes without anybody's help; the namespace, which waits for a controller, is what is said to be there still.
func removal(t *testing.T, c *Cluster) {
	in, err := c.of(networkKind, "")
	if err != nil {
		t.Fatal(err)
	}
	held := object("atoll.dev/v1alpha1", "Network", "", "held", nil)
	held.SetFinalizers([]string{"atoll.dev/network"})
	held.Object["spec"] = map[string]any{"type": "vpc", "subnets": []any{map[string]any{"name": "a", "cidrs": []any{"10.0.0.0/24"}}}}
	if _, err := in.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := PlanRemoval(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range r.Hanging {
		names = append(names, h.Object)
	}
	if !slices.Equal(names, []string{"Tenant acme", "Network held"}) {
		t.Errorf("hanging: %q", names)
	}
	if err := c.removeAll(t.Context(), ofStage(r.members, policies)); err != nil {
		t.Fatal(err)
	}
	ctx := wait.Context(t, 30*time.Second)
	if err := c.removeKinds(ctx, &notes{}, r.members); err != nil {
		t.Fatal(err)
	}
	// It goes on until nothing is left but what nothing finishes: the namespace, which has no controller here, and what it holds.
	left := func(ctx context.Context) (names []string, err error) {
		for _, gk := range installedKinds {
			found, err := c.list(ctx, gk, "", partOfLabel+"="+partOf)
			if err != nil {
				return nil, err
			}
			for _, o := range found {
				if !isKind(&o, "", namespaces.Kind) && !isKind(&o, "", configMaps.Kind) {
					names = append(names, nameOf(&o))
				}
			}
		}
		return names, nil
	}
	rest, stop := context.WithCancel(wait.Context(t, wait.Patience))
	defer stop()
	if err := c.removeRest(rest, &stopping{on: system, stop: stop}, r.members); err == nil || !strings.Contains(err.Error(), system) {
		t.Errorf("the namespace, which nothing finishes: %v", err)
	}
	wait.Eventually(t, wait.Patience, "nothing else is left", func(ctx context.Context) error {
		names, err := left(ctx)
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("still there: %q", names)
		}
		return err
	})
}

// stopping ends what is waited for when a note names on.
type stopping struct {
	notes

	on   string
	stop func()
}

func (s *stopping) Note(format string, args ...any) {
	s.notes.Note(format, args...)
	if strings.Contains(fmt.Sprintf(format, args...), s.on) {
		s.stop()
	}
}
