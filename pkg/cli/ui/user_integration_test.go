//go:build integration

package ui

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAnotherUserOfTheMachine: another user of the machine sends the browser's cookie by real sockets, and does not see the page.
// The control: the user who opened the page sees it by a new connection.
func TestAnotherUserOfTheMachine(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := Listen(at)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(l, Config{Source: &cluster{}, Timeout: time.Minute, Offer: func(a string) { t.Errorf("it offers %s", a) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		cookies := jar{}
		const browser, thief = 65533, 65534
		for _, step := range []struct {
			user    int
			address string
			want    int
		}{
			{browser, s.Address(), http.StatusOK},
			{browser, "http://" + l.Addr().String() + "/networks", http.StatusOK},
			{thief, "http://" + l.Addr().String() + "/networks", http.StatusForbidden},
			{browser, "http://" + l.Addr().String() + "/networks", http.StatusOK},
		} {
			if status, text := getAs(t, step.user, cookies, step.address); status != step.want {
				t.Errorf("user %d, %s: status %d, want %d: %s", step.user, at, status, step.want, text)
			}
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// getAs asks by a socket that another user of the machine makes.
func getAs(t *testing.T, user int, cookies http.CookieJar, address string) (status int, text string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		var c net.Conn
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			// The thread has another user from here on, and ends with the goroutine.
			runtime.LockOSThread()
			if _, err = unix.SetfsuidRetUid(user); err == nil {
				c, err = (&net.Dialer{}).DialContext(ctx, network, at)
			}
		}()
		<-done
		return c, err
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Jar: cookies, Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
