//go:build integration

package api

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/test/apiserver"
)

// securityNamespaces are those in which pods are tried; makers are users with the role edit in each.
func securityNamespaces(t *testing.T, s *apiserver.Server, admin kubernetes.Interface) map[string]kubernetes.Interface {
	makers := map[string]kubernetes.Interface{}
	const network, tenant, enforce = "atoll.dev/network", "atoll.dev/tenant", "pod-security.kubernetes.io/enforce"
	for name, labels := range map[string]map[string]string{
		"sec-network": {network: "red"},
		"sec-tenant":  {tenant: "acme"},
		"sec-both":    {network: "red", tenant: "acme"},
		"sec-told":    {network: "red", enforce: "privileged"},
		// Of the default Network, and of any that selects it by its name.
		"sec-plain": nil,
		"sec-infra": {network: "red", "atoll.dev/infrastructure": "true"},
	} {
		makeNamespace(t, admin, name, labels, nil)
		makers[name] = editor(t, s, admin, name)
	}
	return makers
}

func spec(change func(*corev1.PodSpec, *corev1.Container)) *corev1.Pod {
	p := pod("x", "", "")
	p.Namespace = ""
	change(&p.Spec, &p.Spec.Containers[0])
	return p
}

func named(name string) *corev1.Pod {
	p := spec(func(*corev1.PodSpec, *corev1.Container) {})
	p.Name = name
	return p
}

// testPodSecurity: what pods of a Network may ask for where nobody said which level they have.
func testPodSecurity(t *testing.T, s *apiserver.Server, makers map[string]kubernetes.Interface) {
	const level = "keep to the Pod Security level baseline"
	yes, no, proc := true, false, corev1.UnmaskedProcMount
	secured := func(c corev1.SecurityContext) *corev1.Pod {
		return spec(func(_ *corev1.PodSpec, into *corev1.Container) { into.SecurityContext = &c })
	}
	capable := func(names ...corev1.Capability) *corev1.Pod {
		return secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: names}})
	}
	apparmor := func(value string) *corev1.Pod {
		p := spec(func(*corev1.PodSpec, *corev1.Container) {})
		p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": value}
		return p
	}
	bad := map[string]*corev1.Pod{
		"the node's network": spec(func(p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork = true }),
		"the node's pids":    spec(func(p *corev1.PodSpec, _ *corev1.Container) { p.HostPID = true }),
		"the node's ipc":     spec(func(p *corev1.PodSpec, _ *corev1.Container) { p.HostIPC = true }),
		"a host port": spec(func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}),
		"the node's files": spec(func(p *corev1.PodSpec, _ *corev1.Container) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}),
		"privileged": secured(corev1.SecurityContext{Privileged: &yes}),
		"privileged at its start": spec(func(p *corev1.PodSpec, _ *corev1.Container) {
			p.InitContainers = []corev1.Container{{Name: "i", Image: "none", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}
		}),
		"NET_ADMIN": capable("NET_ADMIN"),
		"NET_RAW":   capable("CHOWN", "NET_RAW"),
		"ALL":       capable("ALL"),
		"unmasked proc": spec(func(p *corev1.PodSpec, c *corev1.Container) {
			p.HostUsers, c.SecurityContext = &no, &corev1.SecurityContext{ProcMount: &proc}
		}),
		"unconfined seccomp": secured(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}),
		"unconfined seccomp of the pod": spec(func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
		}),
		"unconfined AppArmor": secured(corev1.SecurityContext{
			AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
		}),
		"unconfined AppArmor by note": apparmor("unconfined"),
		"SELinux of its own":          secured(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}),
		"a sysctl": spec(func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_forward", Value: "1"}}}
		}),
	}
	good := map[string]*corev1.Pod{
		"nothing":        spec(func(*corev1.PodSpec, *corev1.Container) {}),
		"default rights": capable("NET_BIND_SERVICE", "CHOWN"),
		"fewer rights": secured(corev1.SecurityContext{
			Privileged: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, RunAsNonRoot: &yes,
		}),
		"the runtime's": secured(corev1.SecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}),
		"AppArmor by note":   apparmor("runtime/default"),
		"SELinux, by a type": secured(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t"}}),
		"false, said aloud":  spec(func(p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork, p.HostPID = false, false }),
		"a port and a volume": spec(func(p *corev1.PodSpec, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}),
		"a sysctl that is safe": spec(func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "1"}}}
		}),
	}
	create := func(ctx context.Context, namespace string, p *corev1.Pod) error {
		_, err := makers[namespace].CoreV1().Pods(namespace).Create(ctx, p, dry)
		return err
	}
	for _, namespace := range []string{"sec-network", "sec-tenant", "sec-plain"} {
		waitForPolicies(t, func(ctx context.Context) error { return create(ctx, namespace, bad["privileged"]) })
	}
	for namespace, refusal := range map[string]string{
		"sec-network": level, "sec-tenant": level, "sec-both": level, "sec-plain": level, "sec-told": "", "sec-infra": "",
	} {
		for what, p := range bad {
			t.Run(namespace+" "+what, func(t *testing.T) { expect(t, create(t.Context(), namespace, p), refusal) })
		}
		for what, p := range good {
			t.Run(namespace+" "+what, func(t *testing.T) { expect(t, create(t.Context(), namespace, p), "") })
		}
	}
	t.Run("the cluster's own programs", func(t *testing.T) {
		for _, namespace := range []string{"kube-system", "atoll-system"} {
			for _, what := range []string{"the node's network", "the node's files", "privileged"} {
				_, err := clientFor(t, s.As("programs", core)).CoreV1().Pods(namespace).Create(t.Context(), bad[what], dry)
				expect(t, err, "")
			}
		}
	})
	t.Run("a container that is added for debugging", func(t *testing.T) {
		// The role edit does not let anybody add one.
		pods := clientFor(t, s.As("tenant", core)).CoreV1().Pods("sec-network")
		p, err := pods.Create(t.Context(), named("debugged"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		add := func(c *corev1.SecurityContext) error {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "none", SecurityContext: c, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy: corev1.PullNever,
			}}}
			_, err := pods.UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{DryRun: dry.DryRun})
			return err
		}
		expect(t, add(&corev1.SecurityContext{Privileged: &yes}), level)
		expect(t, add(&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}}), level)
		expect(t, add(nil), "")
	})
	t.Run("control: without the policy", func(t *testing.T) {
		admin := clientFor(t, s.RESTConfig())
		expect(t, without(t, admin, func(ctx context.Context) error {
			return errors.Join(create(ctx, "sec-network", bad["the node's network"]), create(ctx, "sec-plain", bad["the node's network"]))
		}, "atoll-pod-security"), "")
	})
}

// testProbes: no pod has the node ask elsewhere than in the pod itself.
func testProbes(t *testing.T, s *apiserver.Server, makers map[string]kubernetes.Interface) {
	const refused = "cannot name a host"
	get := func(host string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}
	}
	dial := func(host string) *corev1.TCPSocketAction {
		return &corev1.TCPSocketAction{Host: host, Port: intstr.FromInt32(80)}
	}
	always := corev1.ContainerRestartPolicyAlways
	makes := map[string]func(host string) *corev1.Pod{
		"liveness, HTTP": func(host string) *corev1.Pod {
			return spec(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get(host)}}
			})
		},
		"readiness, TCP": func(host string) *corev1.Pod {
			return spec(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: dial(host)}}
			})
		},
		"startup, HTTP": func(host string) *corev1.Pod {
			return spec(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get(host)}}
			})
		},
		"after the start": func(host string) *corev1.Pod {
			return spec(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: get(host)}}
			})
		},
		"before the stop": func(host string) *corev1.Pod {
			return spec(func(_ *corev1.PodSpec, c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get(host)}}
			})
		},
		"a sidecar's": func(host string) *corev1.Pod {
			return spec(func(p *corev1.PodSpec, _ *corev1.Container) {
				p.InitContainers = []corev1.Container{{
					Name: "s", Image: "none", RestartPolicy: &always,
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: dial(host)}},
				}}
			})
		},
		"a second container's": func(host string) *corev1.Pod {
			return spec(func(p *corev1.PodSpec, _ *corev1.Container) {
				p.Containers = append(p.Containers, corev1.Container{
					Name: "d", Image: "none", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get(host)}},
				})
			})
		},
	}
	create := func(ctx context.Context, namespace string, p *corev1.Pod) error {
		_, err := makers[namespace].CoreV1().Pods(namespace).Create(ctx, p, dry)
		return err
	}
	waitForPolicies(t, func(ctx context.Context) error {
		return create(ctx, "sec-plain", makes["liveness, HTTP"]("100.64.0.1"))
	})
	for what, with := range makes {
		t.Run(what, func(t *testing.T) {
			for _, namespace := range []string{"sec-network", "sec-tenant", "sec-plain", "sec-told"} {
				for _, host := range []string{"100.64.0.9", "127.0.0.1", "localhost", "fd64:a701::9", "www.example.com"} {
					expect(t, create(t.Context(), namespace, with(host)), refused)
				}
				expect(t, create(t.Context(), namespace, with("")), "")
			}
			expect(t, create(t.Context(), "sec-infra", with("100.64.0.9")), "")
			onHost := with("127.0.0.1")
			onHost.Spec.HostNetwork = true
			expect(t, create(t.Context(), "sec-told", onHost), "")
		})
	}
	t.Run("control: without the policy", func(t *testing.T) {
		admin := clientFor(t, s.RESTConfig())
		expect(t, without(t, admin, func(ctx context.Context) error {
			return create(ctx, "sec-network", makes["readiness, TCP"]("100.64.0.9"))
		}, "atoll-pods"), "")
	})
}
