package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rowsCleanerName is the Job that deletes Atoll's rows from a northbound database that is not Atoll's.
const rowsCleanerName = "atoll-clean-northbound"

var jobKind = schema.GroupKind{Group: "batch", Kind: "Job"}

// errRowsStay says what to do when the rows cannot be deleted.
var errRowsStay = errors.New(
	"make the northbound database reachable, as --nb-address of the controller names it, or leave Atoll's rows there with --leave-northbound")

// rowsCleaner is the pod that deletes Atoll's rows from the northbound database, as text: the controller's own, with its image,
// identity, node and addresses. It is empty when the database is Atoll's, and goes with the nodes' directories.
func rowsCleaner(controller *unstructured.Unstructured) (string, error) {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(controller.Object, &d); err != nil {
		return "", fmt.Errorf("read %s: %w", nameOf(controller), err)
	}
	spec := d.Spec.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == "controller" })
	if at < 0 {
		return "", fmt.Errorf("read %s: it has no container controller", nameOf(controller))
	}
	program := spec.Containers[at]
	for _, word := range slices.Concat(program.Command, program.Args) {
		if word == "--nb-record" || word == "--nb-record=true" {
			return "", nil
		}
	}
	program.Args = append(slices.Clone(program.Args), "--clean")
	program.Ports, program.StartupProbe, program.LivenessProbe, program.ReadinessProbe, program.Lifecycle = nil, nil, nil, nil, nil
	program.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	// What else users run beside it has nothing to do then, and would never end.
	spec.Containers = []corev1.Container{program}
	spec.RestartPolicy = corev1.RestartPolicyNever
	// Nodes lose their network, and new pods are kept from them.
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	text, err := json.Marshal(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: rowsCleanerLabels(), Annotations: maps.Clone(d.Spec.Template.Annotations)}, Spec: spec,
	})
	if err != nil {
		return "", fmt.Errorf("write the pod that deletes rows: %w", err)
	}
	return string(text), nil
}

func rowsCleanerLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": rowsCleanerName}
}

// rowsCleanerJob runs the pod once: the program itself tries again for some time.
func rowsCleanerJob(pod string) (*unstructured.Unstructured, error) {
	once := int32(0)
	j := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: jobKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: rowsCleanerName, Labels: map[string]string{partOfLabel: partOf}},
		Spec:       batchv1.JobSpec{BackoffLimit: &once},
	}
	if err := json.Unmarshal([]byte(pod), &j.Spec.Template); err != nil {
		return nil, fmt.Errorf("read the pod that deletes rows: %w", err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j)
	if err != nil {
		return nil, fmt.Errorf("write the Job that deletes rows: %w", err)
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}

// cleanNorthbound deletes Atoll's rows from a database that stays, and waits for it. Nobody may write there any more.
func (c *Cluster) cleanNorthbound(ctx context.Context, steps Steps, how cleaner) error {
	if how.rows == "" {
		steps.Note("nothing to do")
		return nil
	}
	j, err := rowsCleanerJob(how.rows)
	if err != nil {
		return err
	}
	// One of an uninstallation that was broken off has said its word.
	if err := c.endRowsCleaner(ctx, steps, j); err != nil {
		return err
	}
	if _, err := c.apply(ctx, j, forReal); err != nil {
		return err
	}
	if err := c.waitRowsCleaner(ctx, steps, j); err != nil {
		return fmt.Errorf("%w; %w", err, errRowsStay)
	}
	if err := c.endRowsCleaner(ctx, steps, j); err != nil {
		return err
	}
	// Whoever goes on from here needs the database no more.
	how.rows = ""
	_, err = c.apply(ctx, how.remembered(), forReal)
	return err
}

// endRowsCleaner removes the Job and waits until its pods are gone.
func (c *Cluster) endRowsCleaner(ctx context.Context, steps Steps, j *unstructured.Unstructured) error {
	if err := c.remove(ctx, j); err != nil {
		return err
	}
	return until(ctx, steps, func() (string, error) {
		now, err := c.get(ctx, jobKind, system, rowsCleanerName)
		if err != nil {
			return "", err
		}
		pods, err := c.rowsCleanerPods(ctx)
		if err != nil {
			return "", err
		}
		var there []string
		for _, p := range pods {
			there = append(there, p.Name)
		}
		if now != nil {
			there = append(there, nameOf(now))
		}
		return some(there, "are still there"), nil
	})
}

func (c *Cluster) rowsCleanerPods(ctx context.Context) ([]corev1.Pod, error) {
	return listAs[corev1.Pod](ctx, c, podKind, system, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: rowsCleanerLabels()}))
}

// waitRowsCleaner waits until the Job is done. When it has failed, the error has the last words of its pod.
func (c *Cluster) waitRowsCleaner(ctx context.Context, steps Steps, j *unstructured.Unstructured) error {
	return until(ctx, steps, func() (string, error) {
		now, err := c.get(ctx, jobKind, system, rowsCleanerName)
		switch {
		case err != nil:
			return "", err
		case now == nil:
			return "", fmt.Errorf("%w: somebody has deleted %s", errRefused, nameOf(j))
		case conditionTrue(now, "Complete"):
			return "", nil
		}
		pods, err := c.rowsCleanerPods(ctx)
		if err != nil {
			return "", err
		}
		why := whyNotReady(pods)
		if conditionTrue(now, "Failed") {
			return "", fmt.Errorf("%w: %s failed; %s", errRefused, nameOf(now), why)
		}
		if why == "" {
			why = "its pod is made"
		}
		return nameOf(now) + ": " + why, nil
	})
}
