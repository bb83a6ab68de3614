package install

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// cleanerName is the DaemonSet that cleans nodes.
	cleanerName = "atoll-clean"
	// removalName is the ConfigMap that remembers by what nodes and the northbound database are cleaned, for an uninstallation that
	// has to go on later.
	removalName = "atoll-uninstall"
)

// cleaner is how nodes are cleaned, and the northbound database.
type cleaner struct {
	// agent and ovn are images. Without ovn the nodes' Open vSwitch is not ours, and stays.
	agent, ovn string
	// rows is the pod of rowsCleaner.
	rows string
}

// remembered is the ConfigMap that says so.
func (w cleaner) remembered() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"agent": w.agent, "ovn": w.ovn, "northbound": w.rows},
	}}
	o.SetNamespace(system)
	o.SetName(removalName)
	o.SetLabels(map[string]string{partOfLabel: partOf})
	return o
}

// cleanerFor finds the programs by which nodes and the northbound database are cleaned: those that run there. They are written
// down before anything goes.
func (c *Cluster) cleanerFor(ctx context.Context, r *Removal) (cleaner, error) {
	var found cleaner
	for i := range r.members {
		o := &r.members[i]
		if !isWorkload(o) {
			continue
		}
		var into *string
		switch o.GetName() {
		case agentName:
			into = &found.agent
		case ovnNodeName:
			into = &found.ovn
		case controllerName:
			var err error
			if found.rows, err = rowsCleaner(o); err != nil {
				return found, err
			}
		}
		if into != nil {
			eachContainer(o, func(container map[string]any) { *into, _ = container["image"].(string) })
		}
	}
	last, err := c.get(ctx, configMaps, system, removalName)
	if err != nil {
		return found, err
	}
	if last != nil {
		data, _, err := unstructured.NestedStringMap(last.Object, "data")
		if err != nil {
			return found, fmt.Errorf("read %s: %w", nameOf(last), err)
		}
		return cleaner{agent: data["agent"], ovn: data["ovn"], rows: data["northbound"]}, nil
	}
	if found == (cleaner{}) {
		return found, nil
	}
	_, err = c.apply(ctx, found.remembered(), forReal)
	return found, err
}

// cleanNodes runs the programs' own cleaning on each node, and waits for it.
func (c *Cluster) cleanNodes(ctx context.Context, steps Steps, how cleaner) error {
	if how.agent == "" {
		steps.Note("no agent was installed")
		return nil
	}
	d, err := how.daemonSet()
	if err != nil {
		return err
	}
	if _, err := c.apply(ctx, d, forReal); err != nil {
		return err
	}
	if err := c.waitRolledOut(ctx, steps, d); err != nil {
		return err
	}
	if err := c.removeAndWait(ctx, steps, []*unstructured.Unstructured{d}); err != nil {
		return err
	}
	// Whoever goes on from here cleans no node again.
	done := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	done.SetNamespace(system)
	done.SetName(removalName)
	return c.remove(ctx, done)
}

// daemonSet cleans each node in its first containers; the last one says, by being there, that the node is clean.
func (w cleaner) daemonSet() (*unstructured.Unstructured, error) {
	privileged, root, none := true, int64(0), int64(0)
	secure := &corev1.SecurityContext{Privileged: &privileged, RunAsUser: &root}
	both := corev1.MountPropagationBidirectional
	mounts := []corev1.VolumeMount{
		// Network namespaces are mounts, which go on the node, too.
		{Name: "run", MountPath: "/run", MountPropagation: &both},
		{Name: "run", MountPath: "/var/run", MountPropagation: &both},
		{Name: "lib", MountPath: "/var/lib"},
		{Name: "cni-conf", MountPath: "/etc/cni/net.d"},
		{Name: "cni-bin", MountPath: "/opt/cni/bin"},
	}
	host := func(name, path string) corev1.Volume {
		kind := corev1.HostPathDirectoryOrCreate
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
	}
	container := func(name, image string, command ...string) corev1.Container {
		return corev1.Container{
			Name: name, Image: image, Command: command, SecurityContext: secure, VolumeMounts: mounts,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}
	}
	agent := []string{"/usr/local/bin/atoll-agent", "clean"}
	if w.ovn == "" {
		agent = append(agent, "--ovs-db=unix:/var/run/openvswitch/db.sock")
	}
	cleaning := []corev1.Container{container("agent", w.agent, agent...)}
	if w.ovn != "" {
		cleaning = append(cleaning, container("ovn", w.ovn, "/usr/local/bin/atoll-ovn", "clean"))
	}
	unprivileged, readOnly := false, true
	clean := corev1.Container{
		Name: "clean", Image: w.agent, Command: []string{"/usr/local/bin/atoll-agent", "clean", "--wait"},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &unprivileged, ReadOnlyRootFilesystem: &readOnly},
	}
	labels := map[string]string{"app.kubernetes.io/name": cleanerName}
	automount := false
	d := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: cleanerName, Labels: map[string]string{partOfLabel: partOf}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					HostNetwork: true, PriorityClassName: "system-node-critical", AutomountServiceAccountToken: &automount,
					TerminationGracePeriodSeconds: &none,
					Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					InitContainers:                cleaning, Containers: []corev1.Container{clean},
					Volumes: []corev1.Volume{
						host("run", "/run"), host("lib", "/var/lib"), host("cni-conf", "/etc/cni/net.d"), host("cni-bin", "/opt/cni/bin"),
					},
				},
			},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	if err != nil {
		return nil, fmt.Errorf("write the DaemonSet that cleans nodes: %w", err)
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}
