package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait is a part that fails when its context ends.
func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := func(context.Context) error { return broken }
	for name, test := range map[string]struct {
		start func(ctx context.Context, part Part) error
		stop  bool
		want  string
	}{
		"a part fails": {start: func(_ context.Context, part Part) error {
			part("wait", wait)
			part("try", fail)
			return nil
		}, want: "try: broken"},
		"the start fails": {start: func(_ context.Context, part Part) error {
			part("wait", wait)
			return broken
		}, want: "broken"},
		"a part fails that the start waits for": {start: func(ctx context.Context, part Part) error {
			part("try", fail)
			return wait(ctx)
		}, want: "try: broken"},
		"somebody asks for its end": {start: func(_ context.Context, part Part) error {
			part("wait", wait)
			return nil
		}, stop: true},
		"and while it starts": {start: func(ctx context.Context, part Part) error {
			part("wait", wait)
			return wait(ctx)
		}, stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			if test.stop {
				// As signal.NotifyContext does it.
				time.AfterFunc(10*time.Millisecond, func() { stop(errors.New("terminated signal received")) })
			}
			text := ""
			if err := Run(ctx, test.start); err != nil {
				text = err.Error()
			}
			if text != test.want {
				t.Errorf("ended with %q, want %q", text, test.want)
			}
		})
	}
}

// A request that has begun when the end comes may clear up, and one that takes too long is cut off.
func TestServe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		farewell time.Duration
		answered bool
	}{"in time": {time.Minute, true}, "too late": {10 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			begun, cutOff := make(chan struct{}), make(chan struct{})
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
				if !test.answered {
					<-cutOff
				}
				_, _ = io.WriteString(w, "cleared up")
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- Serve(ctx, &http.Server{Handler: handler, ReadHeaderTimeout: HeaderTime}, listener, test.farewell)
			}()
			go func() {
				<-begun
				stop()
			}()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			text := ""
			response, err := client.Get("http://" + listener.Addr().String())
			if err == nil {
				body, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				text = string(body)
			}
			if answered := text == "cleared up"; answered != test.answered {
				t.Errorf("answered %q, %v", text, err)
			}
			close(cutOff)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMux(t *testing.T) {
	t.Parallel()
	var ill error
	mux := NewMux(NewRegistry(), func(context.Context) error { return ill })
	ask := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code, answer.Body.String()
	}
	if status, text := ask("/metrics"); status != http.StatusOK || !strings.Contains(text, "go_gc_heap_live_bytes") ||
		!strings.Contains(text, "process_cpu_seconds_total") {
		t.Errorf("/metrics: %d\n%s", status, text)
	}
	if status, _ := ask("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	ill = errors.New("not well")
	if status, text := ask("/healthz"); status != http.StatusServiceUnavailable || text != "not well\n" {
		t.Errorf("/healthz of one that is not well: %d %q", status, text)
	}
}
