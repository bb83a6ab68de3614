package central

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// TestAMemberThatIsShutOutIsGoneAtOnce, and others when they have had no Node for long enough.
func TestAMemberThatIsShutOutIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	store := Store{Client: fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: shutout.Namespace, Name: shutout.Name}, Data: map[string]string{"n2": "2026-11-28T10:00:00Z"},
		},
	), Namespace: shutout.Namespace}
	k := NewKeeper(store, Options{Kind: Southbound, Node: "n0", GoneAfter: time.Hour})
	out, err := store.shutOut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]bool{"n1": false, "n2": true, "n3": false} {
		if gone, err := k.isGone(t.Context(), node, out); err != nil || gone != want {
			t.Errorf("%s is gone: %t, %v; want %t", node, gone, err, want)
		}
	}
}
