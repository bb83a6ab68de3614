package install

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRowsCleaner: a database that Atoll brought goes with the nodes; from another one the controller's own program deletes rows,
// with what it had to reach it, once, wherever the node's taints are.
func TestRowsCleaner(t *testing.T) {
	t.Parallel()
	controller := func(overlay string) *unstructured.Unstructured {
		objects := prepare(t, overlay, plain()).Objects
		return objects[slices.IndexFunc(objects,
			func(o *unstructured.Unstructured) bool { return o.GetName() == controllerName && isWorkload(o) })]
	}
	for _, overlay := range []string{"ha", "single"} {
		if pod, err := rowsCleaner(controller(overlay)); err != nil || pod != "" {
			t.Errorf("%s: %q, %v", overlay, pod, err)
		}
	}
	own := controller("existing-ovn")
	text, err := rowsCleaner(own)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.PodTemplateSpec
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	if !slices.Contains(c.Args, "--clean") || !slices.Contains(c.Args, "--nb-address=unix:/var/run/ovn/ovnnb_db.sock") ||
		c.Image != publicImages+"atoll:v0.3.0" || len(c.VolumeMounts) != 1 {
		t.Errorf("the program: %+v", c)
	}
	if c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil || len(c.Ports) > 0 {
		t.Error("it is probed, though it does not serve")
	}
	if pod.Spec.ServiceAccountName != controllerName || !pod.Spec.HostNetwork || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("the pod: %+v", pod.Spec)
	}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0].Operator != corev1.TolerationOpExists || pod.Spec.Tolerations[0].Key != "" {
		t.Errorf("it does not tolerate %s: %+v", uninstallingTaint, pod.Spec.Tolerations)
	}
	match, _, _ := unstructured.NestedStringMap(own.Object, "spec", "selector", "matchLabels")
	for key, value := range match {
		if pod.Labels[key] == value {
			t.Errorf("it counts as the controller's: %v", pod.Labels)
		}
	}
}
