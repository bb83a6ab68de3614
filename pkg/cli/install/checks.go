package install

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// What docs/support.md says that Atoll runs on.
const (
	oldestKubernetes    = "v1.31"
	oldestForOwnOVN     = "v1.32"
	newestTested        = "v1.36"
	oldestContainerdNRI = "v2.0"
	controlPlaneLabel   = "node-role.kubernetes.io/control-plane"
)

// CheckInstalled is the name of the check whether another version is installed.
const CheckInstalled = "installed version"

// otherPlugins are well-known network plugins: by which DaemonSet, and which annotations of nodes, they are known.
var otherPlugins = []struct {
	name     string
	daemons  []string
	nodeMark string
}{
	{"Cilium", []string{"cilium"}, "network.cilium.io/"},
	{"Calico", []string{"calico-node", "canal"}, "projectcalico.org/"},
	{"Flannel", []string{"kube-flannel", "kube-flannel-ds"}, "flannel.alpha.coreos.com/"},
	{"ovn-kubernetes", []string{"ovnkube-node", "ovs-node"}, "k8s.ovn.org/"},
	{"Kube-OVN", []string{"kube-ovn-cni", "ovs-ovn"}, "ovn.kubernetes.io/"},
	{"Weave Net", []string{"weave-net"}, "weave.works/"},
	{"Antrea", []string{"antrea-agent"}, "node.antrea.io/"},
	{"kindnet", []string{"kindnet"}, ""},
	{"kube-router", []string{"kube-router"}, "kube-router.io/"},
}

// judge makes all checks, in the order in which they are shown.
func (f facts) judge(p *Plan) []Check {
	return []Check{
		f.checkKubernetes(p), f.checkPolicies(), f.checkRights(), f.checkInstalled(p), f.checkPlatforms(), f.checkRuntimes(),
		f.checkOtherPlugins(), f.checkControlPlane(p), f.checkServices(p), f.checkRanges(p), f.checkNodeRange(p), f.checkNodesPods(p),
		f.checkPods(),
	}
}

func ok(name, found string) Check { return Check{Name: name, Verdict: OK, Found: found} }

func (p *Plan) has(kind, name string) bool {
	for _, o := range p.Objects {
		if o.GetKind() == kind && o.GetName() == name {
			return true
		}
	}
	return false
}

func (f facts) checkKubernetes(p *Plan) Check {
	const name = "Kubernetes"
	oldest := oldestKubernetes
	if p.has("DaemonSet", ovnNodeName) {
		oldest = oldestForOwnOVN
	}
	switch minor := semver.MajorMinor(f.server); {
	case minor == "":
		return Check{name, Warn, f.server + ": not understood", "compare it with docs/support.md"}
	case semver.Compare(minor, oldest) < 0:
		return Check{name, Refuse, f.server, "upgrade it to " + oldest + " or newer"}
	case semver.Compare(minor, newestTested) > 0:
		return Check{name, Warn, f.server, "nothing newer than " + newestTested + " was tested"}
	}
	return ok(name, f.server)
}

func (f facts) checkPolicies() Check {
	const name = "admission policies"
	if !f.policies {
		return Check{
			name, Refuse, "the API server does not serve ValidatingAdmissionPolicies (v1)",
			"take --runtime-config and --feature-gates that disable them from it",
		}
	}
	return ok(name, "v1")
}

func (f facts) checkRights() Check {
	const name = "your rights"
	if len(f.denied) > 0 {
		return Check{name, Refuse, "you may not " + some(f.denied, "(RBAC)"), "let an administrator (cluster-admin) install it"}
	}
	return ok(name, "sufficient")
}

func (f facts) checkInstalled(p *Plan) Check {
	const name = CheckInstalled
	switch {
	case f.installed == nil:
		return ok(name, "none")
	case f.installed.Version == "":
		return Check{name, Warn, "unknown", "it cannot be told whether the step is supported"}
	case f.installed.Version != p.Version:
		return Check{name, Refuse, f.installed.Version + ", and this is " + p.Version, "use atoll upgrade"}
	}
	return ok(name, f.installed.Version)
}

func (f facts) checkPlatforms() Check {
	const name = "nodes' platforms"
	var bad, untested []string
	counts := map[string]int{}
	for _, n := range f.nodes {
		platform := n.Status.NodeInfo.OperatingSystem + "/" + n.Status.NodeInfo.Architecture
		counts[platform]++
		switch platform {
		case "linux/amd64":
		case "linux/arm64":
			untested = append(untested, n.Name+" "+platform)
		default:
			bad = append(bad, n.Name+" "+platform)
		}
	}
	if len(f.nodes) == 0 {
		return Check{name, Warn, "there are no nodes", ""}
	}
	if len(bad) > 0 {
		return Check{name, Refuse, some(bad, ""), "there are images for linux/amd64 and linux/arm64 only: take these nodes away"}
	}
	if len(untested) > 0 {
		return Check{name, Warn, some(untested, ""), "nothing was tested there; the image ovn is for the processor that built it"}
	}
	return ok(name, fmt.Sprintf("%d linux/amd64", len(f.nodes)))
}

func (f facts) checkRuntimes() Check {
	const name = "container runtimes"
	var bad []string
	for _, n := range f.nodes {
		runtime, version, _ := strings.Cut(n.Status.NodeInfo.ContainerRuntimeVersion, "://")
		version = "v" + strings.TrimPrefix(version, "v")
		if runtime != "containerd" || !semver.IsValid(version) || semver.Compare(semver.MajorMinor(version), oldestContainerdNRI) < 0 {
			bad = append(bad, n.Name+" "+n.Status.NodeInfo.ContainerRuntimeVersion)
		}
	}
	if len(bad) > 0 {
		return Check{
			name, Warn, some(bad, ""), "NRI is on by default from containerd 2.0 on; without it pods see their faces (docs/addresses.md)",
		}
	}
	return ok(name, "containerd 2.0 or newer")
}

func (f facts) checkOtherPlugins() Check {
	const name = "other network plugins"
	for _, plugin := range otherPlugins {
		for _, d := range f.daemons {
			if d.Namespace != system && slices.Contains(plugin.daemons, d.Name) {
				return Check{
					name, Refuse, plugin.name + ": DaemonSet " + d.Namespace + "/" + d.Name, "remove it, and its files in /etc/cni/net.d of each node",
				}
			}
		}
	}
	for _, plugin := range otherPlugins {
		var marked []string
		for _, n := range f.nodes {
			for key := range n.Annotations {
				if plugin.nodeMark != "" && strings.HasPrefix(key, plugin.nodeMark) {
					marked = append(marked, n.Name)
					break
				}
			}
		}
		if len(marked) > 0 {
			return Check{
				name, Warn, plugin.name + " was once on " + some(marked, ""), "see that /etc/cni/net.d has no file of it, and reboot these nodes",
			}
		}
	}
	return ok(name, "none")
}

// checkControlPlane: each member of the databases needs a node of the control plane, and there are as many as a flag says.
func (f facts) checkControlPlane(p *Plan) Check {
	const name = "control plane nodes"
	have := 0
	for _, n := range f.nodes {
		if _, has := n.Labels[controlPlaneLabel]; has {
			have++
		}
	}
	need := p.databaseMembers()
	switch {
	case need == 0 && have == 0 && p.has("Deployment", controllerName):
		return Check{name, Refuse, "none", "the controller runs on nodes with the label " + controlPlaneLabel + ": label some"}
	case have < need:
		return Check{
			name, Refuse, fmt.Sprintf("%d; the databases have %d members", have, need),
			fmt.Sprintf("label %d nodes %s=, or change --members with a kustomization of your own", need, controlPlaneLabel),
		}
	case need > 0 && have > need:
		return Check{
			name, Refuse, fmt.Sprintf("%d; the databases have %d members", have, need),
			"choose " + strconv.Itoa(need) + " of them by a nodeSelector of DaemonSet " + centralName + ", with a kustomization of your own",
		}
	}
	return ok(name, strconv.Itoa(have))
}

// databaseMembers is how many members the databases that the plan installs have; 0, if it installs none, or chooses nodes in another way.
func (p *Plan) databaseMembers() (members int) {
	for _, o := range p.Objects {
		if o.GetName() != centralName || o.GetKind() != "DaemonSet" {
			continue
		}
		selector, _ := nestedMap(o.Object, "spec", "template", "spec", "nodeSelector")
		if _, has := selector[controlPlaneLabel]; !has || len(selector) != 1 {
			return 0
		}
		eachContainer(o, func(c map[string]any) {
			args, _ := c["args"].([]any)
			for _, one := range args {
				if text, found := strings.CutPrefix(fmt.Sprint(one), "--members="); found {
					if n, err := strconv.Atoi(text); err == nil {
						members = n
					}
				}
			}
		})
	}
	return members
}

func nestedMap(o map[string]any, path ...string) (map[string]any, bool) {
	for _, key := range path {
		next, has := o[key].(map[string]any)
		if !has {
			return nil, false
		}
		o = next
	}
	return o, true
}

func (f facts) checkServices(p *Plan) Check {
	const name = "Services' ranges"
	for _, has := range f.services.services {
		if !slices.ContainsFunc(p.ranges.services, func(w netip.Prefix) bool { return w.Bits() <= has.Bits() && w.Contains(has.Addr()) }) {
			return Check{
				name, Refuse, fmt.Sprintf("the cluster has %s, and serviceCIDRs are %s", has, listed(p.ranges.services)),
				"name all of them with --service-cidrs",
			}
		}
	}
	for _, a := range p.ranges.dns {
		if !slices.ContainsFunc(p.ranges.services, func(w netip.Prefix) bool { return w.Contains(a) }) {
			return Check{
				name, Warn, fmt.Sprintf("DNS address %s is in none of %s", a, listed(p.ranges.services)),
				"see that kubelets' clusterDNS is that address",
			}
		}
	}
	return ok(name, listed(p.ranges.services))
}

func (f facts) checkRanges(p *Plan) Check {
	const name = "Networks' ranges"
	for _, pods := range p.ranges.pods {
		for _, s := range p.ranges.services {
			if pods.Overlaps(s) {
				return Check{name, Refuse, fmt.Sprintf("pods' %s and Services' %s overlap", pods, s), "choose another range with --pod-cidrs"}
			}
		}
		for _, s := range p.ranges.nodes {
			if pods.Overlaps(s) {
				return Check{name, Refuse, fmt.Sprintf("pods' %s and nodes' %s overlap", pods, s), "choose another range with --pod-cidrs"}
			}
		}
	}
	for _, n := range f.nodes {
		for _, a := range addressesOf(n) {
			for _, r := range append(slices.Clone(p.ranges.pods), p.ranges.services...) {
				if r.Contains(a) {
					return Check{
						name, Refuse, fmt.Sprintf("node %s has %s, which is in %s", n.Name, a, r), "choose other ranges with --pod-cidrs and --service-cidrs",
					}
				}
			}
		}
	}
	return ok(name, "pods "+listed(p.ranges.pods))
}

func (f facts) checkNodeRange(p *Plan) Check {
	const name = "nodes' ranges"
	if len(p.ranges.nodes) == 0 {
		return Check{
			name, Warn, "none",
			"no Service gets an external address, and no EndpointSlice by hand an address, until --node-cidrs names all " +
				"by which nodes can be reached",
		}
	}
	for _, n := range f.nodes {
		for _, a := range addressesOf(n) {
			if !slices.ContainsFunc(p.ranges.nodes, func(r netip.Prefix) bool { return r.Contains(a) }) {
				return Check{
					name, Refuse, fmt.Sprintf("node %s has %s, which is in none of %s", n.Name, a, listed(p.ranges.nodes)),
					"name all by which nodes can be reached with --node-cidrs",
				}
			}
		}
	}
	for _, r := range p.ranges.nodes {
		for _, face := range p.ranges.faces {
			if r.Overlaps(face) {
				return Check{
					name, Refuse, fmt.Sprintf("nodes' %s and faces' %s overlap: no AtollConfig may have both", r, face),
					"choose other faceCIDRs with a kustomization of your own (-k), or name smaller ranges with --node-cidrs",
				}
			}
		}
	}
	for _, a := range f.api {
		if !slices.ContainsFunc(append(slices.Clone(p.ranges.nodes), p.ranges.closed...), func(r netip.Prefix) bool { return r.Contains(a) }) {
			return Check{
				name, Warn, fmt.Sprintf("an API server has %s, which is in none of %s, nor in closedCIDRs", a, listed(p.ranges.nodes)),
				"name all by which nodes and the control plane can be reached with --node-cidrs",
			}
		}
	}
	return ok(name, listed(p.ranges.nodes))
}

// checkNodesPods: Kubernetes may have given nodes ranges for pods. Atoll does not use them; that they are others tells of a range
// that was meant.
func (f facts) checkNodesPods(p *Plan) Check {
	const name = "ranges of nodes' pods"
	for _, n := range f.nodes {
		for _, text := range n.Spec.PodCIDRs {
			has, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}
			if !slices.ContainsFunc(p.ranges.pods, func(w netip.Prefix) bool { return w.Contains(has.Addr()) }) {
				return Check{
					name, Warn, fmt.Sprintf("node %s was given %s, and the default Network has %s", n.Name, has, listed(p.ranges.pods)),
					"if the cluster's pods are meant to have that range, name it with --pod-cidrs",
				}
			}
		}
	}
	return ok(name, "as the default Network's")
}

// checkPods: what runs goes on, and what comes in its place is refused.
func (f facts) checkPods() Check {
	const name = "Pod Security of pods"
	namespaces := map[string]string{}
	for _, p := range f.pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || !f.keepsToBaseline(p.Namespace) {
			continue
		}
		if what := intake.BeyondBaseline(&p); what != "" {
			namespaces[p.Namespace] = fmt.Sprintf("%s (%s: %s)", p.Namespace, p.Name, what)
		}
	}
	if len(namespaces) == 0 {
		return ok(name, "within baseline")
	}
	var all []string
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		all = append(all, namespaces[namespace])
	}
	return Check{
		name, Warn, "pods beyond baseline run in namespaces " + some(all, ""),
		"they stay, and none is admitted in their place, until who may update Networks gives the namespace the label " +
			"pod-security.kubernetes.io/enforce, or atoll.dev/infrastructure=true (docs/install.md)",
	}
}

// keepsToBaseline reports whether the admission policy atoll-pod-security is about a namespace's pods.
func (f facts) keepsToBaseline(namespace string) bool {
	if namespace == system || namespace == metav1.NamespaceSystem {
		return false
	}
	at := slices.IndexFunc(f.namespaces, func(n corev1.Namespace) bool { return n.Name == namespace })
	if at < 0 {
		return true
	}
	_, level := f.namespaces[at].Labels[model.LabelPodSecurity]
	return !level && f.namespaces[at].Labels[model.LabelInfrastructure] != "true"
}

func addressesOf(n corev1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			continue
		}
		if parsed, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, parsed)
		}
	}
	return out
}

func listed(in []netip.Prefix) string {
	if len(in) == 0 {
		return "none"
	}
	return strings.Join(texts(in), ", ")
}
