package install

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// sources are the manifests that are shipped, by how Render names them.
var sources = []Source{{Overlay: "ha"}, {Overlay: "single"}, {Overlay: "existing-ovn"}, {Dir: "../../../dist/backup"}}

// podsOf are the templates of pods in manifests, by the name of what makes the pods.
func podsOf(t *testing.T, source Source) map[string]corev1.PodSpec {
	t.Helper()
	objects, err := Render(source)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]corev1.PodSpec{}
	for _, o := range objects {
		for _, path := range [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
			if o.GetAPIVersion() != "apps/v1" && o.GetAPIVersion() != "batch/v1" {
				continue
			}
			content, found, err := unstructured.NestedMap(o.Object, path...)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				continue
			}
			var spec corev1.PodSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &spec); err != nil {
				t.Fatal(err)
			}
			out[o.GetName()] = spec
		}
	}
	return out
}

// TestWhatContainersMayDo: each container of what is shipped runs with the runtime's seccomp profile, and with no capability but
// those named here. One may do all: the agent's.
func TestWhatContainersMayDo(t *testing.T) {
	t.Parallel()
	may := map[string][]corev1.Capability{
		"atoll-dns/portholes":         {"SYS_ADMIN", "NET_BIND_SERVICE"},
		"atoll-ovn-node/ovs-vswitchd": {"NET_ADMIN", "NET_RAW"},
		"atoll-ovn-central/nb":        {"NET_ADMIN"},
		"atoll-ovn-central/sb":        {"NET_ADMIN"},
	}
	for _, source := range sources {
		pods := podsOf(t, source)
		if len(pods) == 0 {
			t.Fatalf("%v makes no pods", source)
		}
		for name, pod := range pods {
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				at := name + "/" + c.Name
				if at == "atoll-agent/agent" {
					continue
				}
				s := c.SecurityContext
				switch {
				case s == nil || s.Privileged != nil && *s.Privileged:
					t.Errorf("%s is privileged, or says nothing of it", at)
					continue
				case s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
					t.Errorf("%s may get more rights", at)
				case s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
					t.Errorf("%s may write its image's files", at)
				}
				profile := s.SeccompProfile
				if profile == nil && pod.SecurityContext != nil {
					profile = pod.SecurityContext.SeccompProfile
				}
				if profile == nil || profile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Errorf("%s has no seccomp profile", at)
				}
				if s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") || !slices.Equal(s.Capabilities.Add, may[at]) {
					t.Errorf("%s has the capabilities %+v, and may have %v", at, s.Capabilities, may[at])
				}
			}
		}
	}
}

// TestMemoryOfContainers: each program of Atoll's has a limit of memory, and its garbage collector knows the limit. Programs of
// OVN and Open vSwitch have none: their size is the cluster's, and they would be as large again after a restart (docs/sizing.md).
func TestMemoryOfContainers(t *testing.T) {
	t.Parallel()
	limits := map[string]string{
		"atoll-controller/controller": "2Gi", "atoll-inspect/inspect": "2Gi", "atoll-agent/agent": "1Gi", "atoll-dns/dns": "1Gi",
		"atoll-dns/portholes": "128Mi",
	}
	for _, source := range sources {
		for name, pod := range podsOf(t, source) {
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				at := name + "/" + c.Name
				if c.Resources.Requests.Memory().IsZero() {
					t.Errorf("%s asks for no memory", at)
				}
				want, limited := limits[at]
				if got, is := c.Resources.Limits[corev1.ResourceMemory]; is != limited || limited && got.Cmp(resource.MustParse(want)) != 0 {
					t.Errorf("%s has the limit %s, want %q", at, got.String(), want)
				}
				if toldOfLimit(c) != limited {
					t.Errorf("%s has a limit: %t; its GOMEMLIMIT is that: %t", at, limited, !limited)
				}
			}
		}
	}
}

// toldOfLimit reports whether Go's runtime is told of a container's limit of memory.
func toldOfLimit(c corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		from := e.ValueFrom
		return e.Name == "GOMEMLIMIT" && from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory" &&
			(from.ResourceFieldRef.Divisor.IsZero() || from.ResourceFieldRef.Divisor.String() == "1")
	})
}

// TestTheDNSProgramSeesNoSocketOfTheAgents: what parses tenants' questions has no directory of the node's in which others' sockets are.
func TestTheDNSProgramSeesNoSocketOfTheAgents(t *testing.T) {
	t.Parallel()
	pod := podsOf(t, Source{Overlay: "ha"})[dnsName]
	onNode := map[string]string{}
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			onNode[v.Name] = v.HostPath.Path
		}
	}
	writes := map[string]bool{}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if path := onNode[m.Name]; path != "" && !m.ReadOnly {
				writes[c.Name+" "+path] = true
			}
		}
	}
	if got := slices.Sorted(maps.Keys(writes)); !slices.Equal(got, []string{"dns /run/atoll/dns"}) {
		t.Errorf("they may write %q of the node", got)
	}
}
