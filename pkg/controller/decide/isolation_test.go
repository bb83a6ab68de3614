package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// isolatedWorld has the Tenant acme with its default Network and acme--db, and the cluster's own Network red. Nobody reaches anybody.
func isolatedWorld() *world {
	settings := withFaces("100.64.0.0/10")
	w := newWorldOf(settings)
	w.settings = settings
	w.setTenant(tenant("acme"))
	w.setNetwork(tenantNetwork("acme", "acme--db", "s", "10.0.0.0/24"))
	w.setNetwork(network("red", "s", "10.0.0.0/24"))
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme"})
	w.setNode(node("n1", 1))
	w.settle()
	return w
}

// rewrite changes a Network as its owner does.
func (w *world) rewrite(name string, how func(n *model.Network)) {
	n := *w.networks[name]
	how(&n)
	n.Generation++
	w.setNetwork(n)
	w.settle()
}

// wantIsolation compares verdicts on Networks and the Tenant acme, such as "acme Hard, tenant acme Soft PodsElsewhere".
func (w *world) wantIsolation(t *testing.T, when string, want ...string) {
	t.Helper()
	for _, line := range want {
		who, verdict, _ := strings.Cut(line, ": ")
		i := w.status(who).Isolation
		if name, is := strings.CutPrefix(who, "tenant "); is {
			i = w.tenants.statuses[name].Isolation
		}
		got := "nothing"
		if i != nil {
			got = string(i.Overall)
			for _, r := range i.Reasons {
				got += " " + r.Reason
			}
		}
		if got != verdict {
			t.Errorf("%s: %s says %s, want %s", when, who, got, verdict)
		}
	}
}

// wantTold compares the reasons of all Events about isolation that somebody has heard.
func (w *world) wantTold(t *testing.T, when, who string, want ...string) {
	t.Helper()
	var got []string
	for _, p := range w.eventsOf(who) {
		if aboutIsolation(p) {
			got = append(got, p.Reason)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s: %s has heard %v, want %v", when, who, got, want)
	}
}

func TestIsolationFollowsCompatibility(t *testing.T) {
	w := isolatedWorld()
	w.wantIsolation(t, "at first", "acme: Hard", "acme--db: Hard", "red: Hard", "tenant acme: Hard")
	w.says("acme--db", model.CompatiblePeer{Tenant: "acme"}, model.CompatiblePeer{Network: "red"})
	w.wantIsolation(t, "with one of the tenant's", "acme--db: Soft ServesOtherNetworks", "acme: Soft UsesOtherNetworks", "red: Hard",
		"tenant acme: Hard")
	w.rewrite("red", func(n *model.Network) { n.Uses = []string{"acme--db"} })
	w.wantIsolation(t, "with another's", "acme--db: Soft ServesOtherNetworks",
		"red: Soft UsesOtherNetworks", "tenant acme: Soft ServesOtherNetworks")
	w.rewrite("red", func(n *model.Network) { n.Tenant = "acme" })
	w.wantIsolation(t, "when the other one is the tenant's, too", "red: Soft ForeignNamespaces UsesOtherNetworks",
		"tenant acme: Soft ForeignNamespaces")
	w.rewrite("red", func(n *model.Network) { n.Allowed = nil })
	w.wantIsolation(t, "for his namespaces", "red: Soft UsesOtherNetworks", "tenant acme: Hard")
	w.says("acme--db")
	w.wantIsolation(t, "at last", "acme: Hard", "acme--db: Hard", "red: Hard", "tenant acme: Hard")
	w.wantTold(t, "at last", "acme", model.ReasonIsolationSoft, model.ReasonIsolationHard)
	w.wantTold(t, "at last", "tenant acme", model.ReasonIsolationSoft, model.ReasonIsolationHard)
}

// TestATenantsPodsElsewhere: a namespace that names a Network of others, and a pod that does, are not behind the Tenant's walls.
func TestATenantsPodsElsewhere(t *testing.T) {
	w := isolatedWorld()
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme", model.LabelNetwork: "red"})
	w.settle()
	w.wantIsolation(t, "by the namespace", "acme: Hard", "tenant acme: Soft PodsElsewhere")
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme", model.LabelNetwork: "acme--db"})
	w.settle()
	w.wantIsolation(t, "at home again", "tenant acme: Hard")
	p := pod("shop", "p", "red")
	w.setPod(p)
	w.settle()
	w.wantIsolation(t, "by the pod", "red: Hard", "tenant acme: Soft PodsElsewhere")
	w.rewrite("red", func(n *model.Network) { n.Tenant, n.Allowed = "acme", nil })
	w.wantIsolation(t, "when its Network is the tenant's", "tenant acme: Hard")
	w.rewrite("red", func(n *model.Network) { n.Tenant, n.Allowed = "", &match.Selector{} })
	w.deletePod(p.Key)
	w.settle()
	w.wantIsolation(t, "when it has gone", "tenant acme: Hard")
}

// TestPrivilegedPodsAreSaid: walls are soft where a namespace is admitted whose pods may be privileged, however it is admitted,
// and whichever was first.
func TestPrivilegedPodsAreSaid(t *testing.T) {
	w := isolatedWorld()
	label := func(labels map[string]string) {
		labels["kubernetes.io/metadata.name"] = "old"
		w.setNamespace("old", labels)
		w.settle()
	}
	w.rewrite("red", func(n *model.Network) { n.Allowed = nil })
	label(map[string]string{model.LabelPodSecurity: "privileged"})
	w.wantIsolation(t, "by nobody's namespace", "acme: Hard", "red: Hard", "tenant acme: Hard")
	label(map[string]string{model.LabelPodSecurity: "privileged", model.LabelNetwork: "red"})
	w.wantIsolation(t, "labelled afterwards", "acme: Hard", "red: Soft PrivilegedPods")
	label(map[string]string{model.LabelPodSecurity: "baseline", model.LabelNetwork: "red"})
	w.wantIsolation(t, "with a level", "red: Hard")
	w.rewrite("red", func(n *model.Network) {
		n.Allowed = &match.Selector{
			Requirements: []match.Requirement{{Key: "kubernetes.io/metadata.name", Op: match.In, Values: []string{"old"}}},
		}
	})
	label(map[string]string{model.LabelPodSecurity: "privileged"})
	w.wantIsolation(t, "by its name", "red: Soft PrivilegedPods", "acme: Hard")
	label(map[string]string{model.LabelPodSecurity: "privileged", model.LabelInfrastructure: "true"})
	w.wantIsolation(t, "infrastructure is trusted", "red: Hard")
	label(map[string]string{model.LabelPodSecurity: "privileged", model.LabelTenant: "acme"})
	w.wantIsolation(t, "of the tenant", "acme: Soft PrivilegedPods", "acme--db: Soft PrivilegedPods", "red: Soft PrivilegedPods")
	w.rewrite("red", func(n *model.Network) { n.Allowed = nil })
	w.wantIsolation(t, "not admitted any more", "red: Hard")
	w.deleteNamespace("old")
	w.settle()
	w.wantIsolation(t, "when it has gone", "acme: Hard", "acme--db: Hard", "tenant acme: Hard")
}

// TestPrivilegedPodsFromBefore: walls are soft while a pod is in a Network that has more of its node than baseline gives, and
// hard when it has gone.
func TestPrivilegedPodsFromBefore(t *testing.T) {
	w := isolatedWorld()
	old := pod("shop", "old", "acme")
	old.Beyond = true
	w.setPod(old)
	w.setPod(pod("shop", "web", "acme"))
	w.settle()
	w.wantIsolation(t, "with an old pod", "acme: Soft PrivilegedPods", "acme--db: Hard", "red: Hard", "tenant acme: Soft PrivilegedPods")
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme", model.LabelInfrastructure: "true"})
	w.settle()
	w.wantIsolation(t, "infrastructure is trusted", "acme: Hard")
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme"})
	w.settle()
	w.wantIsolation(t, "not any more", "acme: Soft PrivilegedPods")
	w.deletePod(old.Key)
	w.settle()
	w.wantIsolation(t, "when it has gone", "acme: Hard", "tenant acme: Hard")
}

// TestNothingIsSaidOfWhatIsNotServed: neither hard nor soft.
func TestNothingIsSaidOfWhatIsNotServed(t *testing.T) {
	w := isolatedWorld()
	w.rewrite("acme--db", func(n *model.Network) { n.Subnets[0].Error = "no range" })
	w.wantIsolation(t, "one is not served", "acme: Hard", "acme--db: nothing", "tenant acme: nothing")
	w.rewrite("acme--db", func(n *model.Network) { n.Subnets[0].Error = "" })
	w.wantIsolation(t, "it is served", "acme--db: Hard", "tenant acme: Hard")
	w.setNetwork(tenantNetwork("acme", "acme--new", "s", "10.0.0.0/24"))
	w.state.Apply(w.Take())
	w.wantIsolation(t, "one is not yet in the database", "acme: Hard", "acme--new: nothing", "tenant acme: nothing")
	w.commit()
	w.settle()
	w.wantIsolation(t, "it is there", "acme--new: Hard", "tenant acme: Hard")
	w.state.Disconnected(time.Unix(1, 0))
	w.wantIsolation(t, "without the database", "acme: nothing", "red: nothing", "tenant acme: nothing")
	for _, who := range []string{"acme", "acme--db", "acme--new", "red", "tenant acme"} {
		w.wantTold(t, "with nothing to tell", who)
	}
}

// TestIsolationIsToldOnce: a verdict that the status tells already is not told again, whichever controller made it.
func TestIsolationIsToldOnce(t *testing.T) {
	w := isolatedWorld()
	direct := func(n *model.Network) { n.Infra = model.InfraDirect }
	w.rewrite("acme", direct)
	told := func(when string, want ...string) {
		t.Helper()
		w.wantTold(t, when, "acme", want...)
		w.wantTold(t, when, "tenant acme", want...)
	}
	told("once soft", model.ReasonIsolationSoft)
	w.rewrite("acme", func(n *model.Network) { n.Ingress = model.InfraIngressAll })
	w.wantIsolation(t, "for one more reason", "acme: Soft InfraAccessDirect InfraIngressAll",
		"tenant acme: Soft InfraAccessDirect InfraIngressAll")
	w.begin(w.cluster)
	w.settle()
	told("after a restart", model.ReasonIsolationSoft)
	w.rewrite("acme", func(n *model.Network) { n.Infra, n.Ingress = model.InfraNone, model.InfraIngressNone })
	told("by the next controller", model.ReasonIsolationSoft, model.ReasonIsolationHard)
	w.state.Disconnected(time.Unix(1, 0))
	w.state.Apply(w.Take())
	w.begin(w.cluster)
	w.settle()
	w.wantIsolation(t, "with the database again", "acme: Hard", "tenant acme: Hard")
	told("with the database again", model.ReasonIsolationSoft, model.ReasonIsolationHard)
	// What happens while no controller runs is told by the next one.
	n := *w.networks["acme"]
	direct(&n)
	w.setNetwork(n)
	w.begin(w.cluster)
	w.settle()
	told("after a restart with a change", model.ReasonIsolationSoft, model.ReasonIsolationHard, model.ReasonIsolationSoft)
}
