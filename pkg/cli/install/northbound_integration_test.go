//go:build integration

package install

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/wait"
)

// TestCleanNorthbound: the Job that deletes rows is waited for. When it fails, its pod's last words are in the error, with what
// to do; called again, it is made anew, from what was written down, though the controller is gone; once done, nobody does it
// again.
func TestCleanNorthbound(t *testing.T) {
	server := apiserver.Start(t)
	c := clusterOf(t, server.RESTConfig())
	if _, err := c.applyAll(t.Context(),
		[]*unstructured.Unstructured{namespace(), object("v1", "ServiceAccount", system, controllerName, nil)}); err != nil {
		t.Fatal(err)
	}
	r := &Removal{}
	for _, o := range prepare(t, "existing-ovn", plain()).Objects {
		if isWorkload(o) {
			r.members = append(r.members, *o)
		}
	}
	how, err := c.cleanerFor(t.Context(), r)
	if err != nil || how.rows == "" || how.agent == "" || how.ovn != "" {
		t.Fatalf("%+v, %v", how, err)
	}

	ends := func(condition, message string) {
		go jobEnds(t, c, condition, message) // ends before cleanNorthbound, which waits for what it writes
	}
	ends("Failed", "a warning before\nconnect to OVN_Northbound at tcp:192.0.2.1:6641: connection refused")
	err = c.cleanNorthbound(wait.Context(t, wait.Patience), &notes{}, how)
	if err == nil || !strings.Contains(err.Error(), "192.0.2.1:6641: connection refused") ||
		!strings.Contains(err.Error(), "--leave-northbound") {
		t.Fatalf("a Job that failed: %v", err)
	}

	// Nobody takes pods away here that have lost their Job. The controller is gone by now.
	if err := c.remove(t.Context(), object("v1", "Pod", system, failedPod, nil)); err != nil {
		t.Fatal(err)
	}
	how, err = c.cleanerFor(t.Context(), &Removal{})
	if err != nil || how.rows == "" {
		t.Fatalf("what was written down: %+v, %v", how, err)
	}
	ends("Complete", "")
	if err := c.cleanNorthbound(wait.Context(t, wait.Patience), &notes{}, how); err != nil {
		t.Fatal(err)
	}
	if left, err := c.get(t.Context(), jobKind, system, rowsCleanerName); err != nil || left != nil {
		t.Errorf("the Job is there, %v", err)
	}
	how, err = c.cleanerFor(t.Context(), &Removal{})
	if err != nil || how.rows != "" || how.agent == "" {
		t.Errorf("what is left to do: %+v, %v", how, err)
	}
	if err := c.cleanNorthbound(t.Context(), &notes{}, how); err != nil {
		t.Errorf("when nothing is left to do: %v", err)
	}
}

// failedPod is the name of the pod of a Job that fails.
const failedPod = "rows-failed"

// jobEnds is the Job's controller and kubelet: it gives a Job that is not over yet a pod, and both an end.
func jobEnds(t *testing.T, c *Cluster, condition, message string) {
	ctx := wait.Context(t, wait.Patience)
	err := until(ctx, &notes{}, func() (string, error) {
		j, err := c.get(ctx, jobKind, system, rowsCleanerName)
		if err != nil || j == nil || conditionTrue(j, "Failed") {
			return "no new Job", err
		}
		pod := object("v1", "Pod", system, failedPod, rowsCleanerLabels())
		spec, _, _ := unstructured.NestedMap(j.Object, "spec", "template", "spec")
		pod.Object["spec"] = spec
		if message != "" {
			in, err := c.of(podKind, system)
			if err != nil {
				return "", err
			}
			if _, err := in.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return "", err
			}
			pod.Object["status"] = map[string]any{"phase": "Failed", "containerStatuses": []any{map[string]any{
				"name": "controller", "ready": false, "restartCount": int64(0), "image": "", "imageID": "",
				"state": map[string]any{"terminated": map[string]any{"exitCode": int64(1), "message": message}},
			}}}
			if _, err := in.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
				return "", err
			}
		}
		in, err := c.of(jobKind, system)
		if err != nil {
			return "", err
		}
		now := time.Now().UTC().Format(time.RFC3339)
		patch := `{"status":{"startTime":"` + now + `","conditions":[` + conditionsOf(condition, now) + `]`
		if condition == "Complete" {
			patch += `,"completionTime":"` + now + `","succeeded":1`
		} else {
			patch += `,"failed":1`
		}
		_, err = in.Patch(ctx, rowsCleanerName, types.MergePatchType, []byte(patch+"}}"), metav1.PatchOptions{}, "status")
		return "", err
	})
	if err != nil {
		t.Error(err)
	}
}

// conditionsOf are those of a Job that has ended: the server wants to have been told before.
func conditionsOf(condition, now string) string {
	one := func(kind string) string {
		return `{"type":"` + kind + `","status":"True","lastTransitionTime":"` + now + `","lastProbeTime":"` + now + `"}`
	}
	before := map[string]string{"Failed": "FailureTarget", "Complete": "SuccessCriteriaMet"}[condition]
	return one(before) + "," + one(condition)
}
