package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

var podResource = schema.GroupResource{Resource: "pods"}

// refusing is a Writer, not running, towards a server that answers every PATCH with an error and holds a pod with
// a UID; without one no GET is answered. It counts the PATCHes.
func refusing(t *testing.T, answer *apierrors.StatusError, uid string) (*Writer, *atomic.Int32) {
	t.Helper()
	var patches atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPatch:
			patches.Add(1)
			status := answer.Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			out.WriteHeader(int(status.Code))
			_ = json.NewEncoder(out).Encode(status)
		case uid == "":
			out.WriteHeader(http.StatusInternalServerError)
		default:
			_ = json.NewEncoder(out).Encode(metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid)},
			})
		}
	}))
	t.Cleanup(server.Close)
	w, err := NewWriter(&rest.Config{Host: server.URL}, nil, WriterOptions{})
	must(t, err)
	t.Cleanup(func() {
		w.events.broadcaster.Shutdown()
		ended, end := context.WithCancel(context.Background())
		end()
		for _, run := range w.boxes.runs {
			run(ended)
		}
	})
	return w, &patches
}

func TestOutcomeOfAPatch(t *testing.T) {
	conflict := apierrors.NewConflict(podResource, "a", errors.New("uid"))
	unwell := apierrors.NewInternalError(errors.New("webhook does not answer"))
	for name, test := range map[string]struct {
		answer        *apierrors.StatusError
		uid           string // of the pod that is there
		gone, refused bool
	}{
		"invalid":                   {errTooLong, "u", false, true},
		"invalid, of a successor":   {errTooLong, "v", true, false},
		"invalid, nobody knows why": {errTooLong, "", false, false},
		"forbidden":                 {apierrors.NewForbidden(podResource, "a", errors.New("no")), "u", false, true},
		"bad request":               {apierrors.NewBadRequest("no"), "u", false, true},
		"too large":                 {apierrors.NewRequestEntityTooLargeError("no"), "u", false, true},
		"conflict":                  {conflict, "u", false, false},
		"conflict with a successor": {conflict, "v", true, false},
		"server unwell":             {unwell, "u", false, false},
		"too many requests":         {apierrors.NewTooManyRequestsError("later"), "u", false, false},
		"gone":                      {apierrors.NewNotFound(podResource, "a"), "u", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := refusing(t, test.answer, test.uid)
			err := w.patchAttachments(t.Context(), key("a"), decided[[]model.Attachment]{"u", decision})
			_, refused := errors.AsType[*refusedError](err)
			if err == nil || errors.Is(err, errGone) != test.gone || refused != test.refused {
				t.Errorf("got %v, refused: %v", err, refused)
			}
		})
	}
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"remove or shorten":                     errTooLong,
		"administrator to let atoll-controller": apierrors.NewForbidden(podResource, "a", errors.New("no")),
		"Change the pod":                        apierrors.NewBadRequest("no"),
	} {
		err = &refusedError{cause: err}
		if got := refusal(err); !strings.Contains(got, want) || !strings.HasSuffix(got, err.Error()) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// TestForget is a pod that leaves while its decision waits, or while it is parked.
func TestForget(t *testing.T) {
	w, patches := refusing(t, errTooLong, "u")
	w.WriteAttachments(key("a"), "u", decision)
	w.WriteAttachments(key("b"), "v", decision)
	w.Forget(key("a"))
	w.Forget(key("never decided"))
	if w.attachments.wanted[key("a")] != nil || w.attachments.wanted[key("b")] == nil {
		t.Errorf("wanted: %v", w.attachments.wanted)
	}
	w.Forget(key("b"))
	must(t, w.Flush(t.Context())) // nothing is left, though nobody writes
	for range 2 {
		w.attachments.next(t.Context())
	}
	if patches.Load() != 0 {
		t.Errorf("%d patches of pods that were forgotten", patches.Load())
	}

	w.WriteAttachments(key("a"), "u", decision)
	w.attachments.next(t.Context())
	if len(w.attachments.parked) != 1 || patches.Load() != 1 {
		t.Fatalf("not parked after %d patches", patches.Load())
	}
	w.Forget(key("a"))
	if len(w.attachments.parked) != 0 {
		t.Error("a refused decision outlives its pod")
	}
}

// TestForgetConcurrently decides and forgets from many sides while all runs; the race detector reads along.
func TestForgetConcurrently(t *testing.T) {
	w, patches := refusing(t, apierrors.NewServiceUnavailable("later"), "u")
	var deciding, running sync.WaitGroup
	running.Go(func() { w.attachments.run(t.Context()) })
	t.Cleanup(running.Wait)
	for range 4 {
		deciding.Go(func() {
			for i := range 200 {
				pod := model.PodKey{Namespace: "default", Name: string(rune('a' + i%5))}
				w.WriteAttachments(pod, "u", decision)
				w.attachments.again(pod)
				w.Forget(pod)
			}
		})
	}
	deciding.Wait()
	must(t, w.Flush(t.Context()))
	t.Logf("%d patches were under way in time", patches.Load())
	w.attachments.mu.Lock()
	defer w.attachments.mu.Unlock()
	if len(w.attachments.wanted)+len(w.attachments.parked) != 0 {
		t.Errorf("left %v and %v", w.attachments.wanted, w.attachments.parked)
	}
}
