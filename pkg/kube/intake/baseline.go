package intake

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// usualCapabilities are those that containers may add.
var usualCapabilities = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID",
	"SYS_CHROOT",
}

// safeSysctls are the sysctls that pods may set.
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

// selinuxTypes are those of containers.
var selinuxTypes = []string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

// appArmor begins annotations that have containers' profiles.
const appArmor = "container.apparmor.security.beta.kubernetes.io/"

// BeyondBaseline is what of a pod is beyond the Pod Security level baseline, in a word or two; empty, if nothing is. It goes by
// what the admission policy atoll-pod-security refuses (dist/admission/pod-security.yaml;
// https://kubernetes.io/docs/concepts/security/pod-security-standards/), which looks at pods that come: those that ran before it,
// or before their namespace was held to it, are found by this.
func BeyondBaseline(p *corev1.Pod) string {
	s := &p.Spec
	switch {
	case s.HostNetwork:
		return "hostNetwork"
	case s.HostPID:
		return "hostPID"
	case s.HostIPC:
		return "hostIPC"
	case slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		return "hostPath"
	}
	for key, value := range p.Annotations {
		if strings.HasPrefix(key, appArmor) && value != "" && value != "runtime/default" && !strings.HasPrefix(value, "localhost/") {
			return "AppArmor profile"
		}
	}
	if what := beyondOfPod(s.SecurityContext); what != "" {
		return what
	}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
			return "hostPort"
		}
		if what := beyondOfContainer(c.SecurityContext); what != "" {
			return what
		}
	}
	for _, c := range s.EphemeralContainers {
		if what := beyondOfContainer(c.SecurityContext); what != "" {
			return what
		}
	}
	return ""
}

func beyondOfPod(c *corev1.PodSecurityContext) string {
	switch {
	case c == nil:
		return ""
	case slices.ContainsFunc(c.Sysctls, func(s corev1.Sysctl) bool { return !slices.Contains(safeSysctls, s.Name) }):
		return "sysctls"
	}
	return beyondOfBoth(c.SeccompProfile, c.AppArmorProfile, c.SELinuxOptions, c.WindowsOptions)
}

func beyondOfContainer(c *corev1.SecurityContext) string {
	switch {
	case c == nil:
		return ""
	case ptr.Deref(c.Privileged, false):
		return "privileged"
	case c.Capabilities != nil &&
		slices.ContainsFunc(c.Capabilities.Add, func(a corev1.Capability) bool { return !slices.Contains(usualCapabilities, a) }):
		return "capabilities"
	case ptr.Deref(c.ProcMount, corev1.DefaultProcMount) != corev1.DefaultProcMount:
		return "procMount"
	}
	return beyondOfBoth(c.SeccompProfile, c.AppArmorProfile, c.SELinuxOptions, c.WindowsOptions)
}

// beyondOfBoth is about what pods and containers have alike.
func beyondOfBoth(
	seccomp *corev1.SeccompProfile, armor *corev1.AppArmorProfile, selinux *corev1.SELinuxOptions,
	windows *corev1.WindowsSecurityContextOptions,
) string {
	switch {
	case seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeUnconfined:
		return "seccomp profile"
	case armor != nil && armor.Type == corev1.AppArmorProfileTypeUnconfined:
		return "AppArmor profile"
	case selinux != nil && (selinux.User != "" || selinux.Role != "" || !slices.Contains(selinuxTypes, selinux.Type)):
		return "seLinuxOptions"
	case windows != nil && ptr.Deref(windows.HostProcess, false):
		return "hostProcess"
	}
	return ""
}
