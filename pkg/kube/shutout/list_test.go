package shutout

import (
	"context"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	testcore "k8s.io/client-go/testing"
)

// TestTheList: who is listed stays listed since the same time, whoever writes beside it, until they are admitted.
func TestTheList(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	if listed, err := Read(t.Context(), client); err != nil || len(listed) > 0 {
		t.Fatalf("without a list: %v, %v", listed, err)
	}
	then := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	for range 2 { // The first one makes the object.
		if since, err := Add(t.Context(), client, "n1", then); err != nil || !since.Equal(then) {
			t.Fatalf("listed since %v, %v", since, err)
		}
	}
	if since, err := Add(t.Context(), client, "n1", then.Add(time.Hour)); err != nil || !since.Equal(then) {
		t.Errorf("listed once more: since %v, %v", since, err)
	}
	conflicts := 2
	client.PrependReactor("update", "configmaps", func(testcore.Action) (bool, runtime.Object, error) {
		if conflicts == 0 {
			return false, nil, nil
		}
		conflicts--
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, Name, nil)
	})
	if _, err := Add(t.Context(), client, "n2", then); err != nil {
		t.Errorf("somebody wrote meanwhile: %v", err)
	}
	if listed, err := Read(t.Context(), client); err != nil || !slices.Equal(listed.Names(), []string{"n1", "n2"}) {
		t.Errorf("%v, %v", listed, err)
	}
	if err := Admit(t.Context(), client, "n1"); err != nil {
		t.Error(err)
	}
	if listed, err := Read(t.Context(), client); err != nil || !slices.Equal(listed.Names(), []string{"n2"}) {
		t.Errorf("after the admission: %v, %v", listed, err)
	}
}

// TestAListThatIsWrong: a node whose time cannot be read is shut out, and who cannot read the list is told.
func TestAListThatIsWrong(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(
		&core.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: Namespace, Name: Name}, Data: map[string]string{"n1": "yesterday"}})
	listed, err := Read(t.Context(), client)
	if since, is := listed["n1"]; err != nil || !is || !since.IsZero() {
		t.Errorf("%v, %v", listed, err)
	}
	client.PrependReactor("get", "configmaps", func(testcore.Action) (bool, runtime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	if _, err := Read(t.Context(), client); err == nil {
		t.Error("a list that cannot be read is taken for an empty one")
	}
}
