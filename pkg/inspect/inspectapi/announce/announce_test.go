package announce

import (
	"context"
	"encoding/base64"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
)

// TestRun: the APIService says the CAs of now, whoever else has written there, and none is made where there is none.
func TestRun(t *testing.T) {
	t.Parallel()
	kinds := map[schema.GroupVersionResource]string{apiServices(): "APIServiceList"}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": APIServiceName()},
		"spec": map[string]any{"group": "inspect.atoll.dev"},
	}}
	for name, objects := range map[string][]runtime.Object{"there": {service}, "not there": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
				var bundle atomic.Pointer[[]byte]
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go Run(ctx, Config{Objects: client, Log: slog.New(slog.DiscardHandler), Bundle: func() []byte {
					if b := bundle.Load(); b != nil {
						return *b
					}
					return nil
				}})
				says := func() string {
					all, err := client.Resource(apiServices()).List(ctx, meta.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if len(all.Items) != len(objects) {
						t.Fatalf("there are %d APIServices, and were %d", len(all.Items), len(objects))
					}
					if len(all.Items) == 0 {
						return ""
					}
					text, _, _ := unstructured.NestedString(all.Items[0].Object, "spec", "caBundle")
					return text
				}
				<-time.After(2 * announceRetry)
				if said := says(); said != "" {
					t.Errorf("without a CA it says %q", said)
				}
				for _, ca := range []string{"one", "two"} {
					text := []byte(ca)
					bundle.Store(&text)
					<-time.After(2 * announceEvery)
					if want := base64.StdEncoding.EncodeToString(text); len(objects) > 0 && says() != want {
						t.Errorf("it says %q, want %q", says(), want)
					}
				}
				says()
			})
		})
	}
}
