package intake

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestBeyondBaseline has one pod for each of what the admission policy refuses. The control is beside each: the same field with
// what pods may have.
func TestBeyondBaseline(t *testing.T) {
	t.Parallel()
	if got := BeyondBaseline(&corev1.Pod{}); got != "" {
		t.Errorf("an empty pod is beyond by %s", got)
	}
	with := func(c corev1.SecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{}, {SecurityContext: &c}} }
	}
	whole := func(c corev1.PodSecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SecurityContext = &c }
	}
	annotated := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{appArmor + "c": value} }
	}
	port := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: n}}}}
		}
	}
	adds := func(c corev1.Capability) func(*corev1.Pod) {
		return with(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{c}}})
	}
	sysctl := func(name string) func(*corev1.Pod) {
		return whole(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: name}}})
	}
	nothing := func(*corev1.Pod) {}
	for what, c := range map[string]struct{ beyond, may func(*corev1.Pod) }{
		"hostNetwork": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, nothing},
		"hostPID":     {func(p *corev1.Pod) { p.Spec.HostPID = true }, nothing},
		"hostIPC":     {func(p *corev1.Pod) { p.Spec.HostIPC = true }, nothing},
		"hostPath": {
			func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
			},
			func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			},
		},
		"hostPort":     {port(80), port(0)},
		"privileged":   {with(corev1.SecurityContext{Privileged: new(true)}), with(corev1.SecurityContext{Privileged: new(false)})},
		"capabilities": {adds("NET_ADMIN"), adds("CHOWN")},
		"procMount": {
			with(corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)}), with(corev1.SecurityContext{
				ProcMount: new(corev1.DefaultProcMount),
			}),
		},
		"AppArmor profile": {annotated("unconfined"), annotated("localhost/x")},
		"sysctls":          {sysctl("kernel.core_pattern"), sysctl("net.ipv4.tcp_syncookies")},
		"seccomp profile": {
			whole(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}),
			whole(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
		},
		"seLinuxOptions": {
			with(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}),
			with(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t", Level: "s0"}}),
		},
		"hostProcess": {
			whole(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}),
			whole(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}),
		},
	} {
		var bad, good corev1.Pod
		c.beyond(&bad)
		c.may(&good)
		if got := BeyondBaseline(&bad); got != what {
			t.Errorf("%s is found as %q", what, got)
		}
		if got := BeyondBaseline(&good); got != "" {
			t.Errorf("what may be of %s is found as %q", what, got)
		}
	}
	for where, put := range map[string]func(*corev1.Pod, *corev1.SecurityContext){
		"init container": func(p *corev1.Pod, c *corev1.SecurityContext) {
			p.Spec.InitContainers = []corev1.Container{{SecurityContext: c}}
		},
		"ephemeral container": func(p *corev1.Pod, c *corev1.SecurityContext) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: c}}}
		},
	} {
		var p corev1.Pod
		put(&p, &corev1.SecurityContext{Privileged: new(true)})
		if got := BeyondBaseline(&p); got != "privileged" {
			t.Errorf("of an %s %q is found", where, got)
		}
	}
}
