package install

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestAnUpgradeIsAppliedInOrder: it is applied in the order in which programs need each other: inspection after the controller,
// from which it has its certificates, and the Service that leads to it after its pods. Until then the Service leads to the
// controllers of the version before.
func TestAnUpgradeIsAppliedInOrder(t *testing.T) {
	t.Parallel()
	p := prepare(t, "ha", plain())
	p.Objects = slices.DeleteFunc(p.Objects, func(o *unstructured.Unstructured) bool {
		return !isWorkload(o) && !isKind(o, "", "Service")
	})
	var applied []string
	c := fakeCluster(t, "v1.35.0", func(string, string) bool { return true })
	c.objects = recording(func(name string) { applied = append(applied, name) })
	if _, err := c.roll(t.Context(), p, Options{}, OneByOne, &notes{}); err != nil {
		t.Fatal(err)
	}
	if len(applied) != len(p.Objects) {
		t.Errorf("%d of %d objects are applied: %q", len(applied), len(p.Objects), applied)
	}
	last := -1
	for _, name := range []string{
		"daemonsets/atoll-ovn-central", "deployments/atoll-controller", "deployments/atoll-inspect", "services/atoll-inspect",
		"daemonsets/atoll-agent",
	} {
		at := slices.Index(applied, name)
		if at <= last {
			t.Errorf("%s is not where it belongs: %q", name, applied)
		}
		last = at
	}
}

// recording is an API server that takes what is applied, and tells of it.
func recording(applied func(string)) dynamic.Interface {
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		applied(patch.GetResource().Resource + "/" + patch.GetName())
		o := &unstructured.Unstructured{}
		return true, o, o.UnmarshalJSON(patch.GetPatch())
	})
	return client
}
