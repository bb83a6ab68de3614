package scrape

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/atoll-net/atoll/pkg/process/daemon"
	"github.com/atoll-net/atoll/test/wait"
)

// apiServer knows the tokens "scraper" and "somebody", of users who may read metrics and who may not; and counts how often it is asked.
type apiServer struct {
	*kubefake.Clientset
	asked int
	away  bool
}

func newAPIServer() *apiServer {
	s := &apiServer{Clientset: kubefake.NewClientset()}
	s.PrependReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		s.asked++
		if s.away {
			return true, nil, errors.New("away")
		}
		review := a.(kubetesting.CreateAction).GetObject().(*authentication.TokenReview)
		token := review.Spec.Token
		review.Status.Authenticated, review.Status.User.Username = token == "scraper" || token == "somebody", token
		return true, review, nil
	})
	s.PrependReactor("create", "subjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorization.SubjectAccessReview)
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "scraper" && asked != nil && asked.Path == "/metrics" && asked.Verb == "get"
		return true, review, nil
	})
	return s
}

func ask(g *guard, authorization string) int {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	g.before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") })).ServeHTTP(answer, r)
	return answer.Code
}

func TestWhoMayScrape(t *testing.T) {
	t.Parallel()
	g := newGuard(newAPIServer(), metricsPath)
	for authorization, want := range map[string]int{
		"":                   http.StatusUnauthorized,
		"Basic c2NyYXBlcg==": http.StatusUnauthorized,
		"Bearer ":            http.StatusUnauthorized,
		"Bearer forged":      http.StatusUnauthorized,
		"Bearer somebody":    http.StatusForbidden,
		"Bearer scraper":     http.StatusOK,
	} {
		if got := ask(g, authorization); got != want {
			t.Errorf("%.30q is answered %d, want %d", authorization, got, want)
		}
	}
}

// The API server is asked about a token once in a while; and while it is away nobody new is let in.
func TestVerdictsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newAPIServer()
		g := newGuard(api, metricsPath)
		for range 10 {
			if got := ask(g, "Bearer scraper"); got != http.StatusOK {
				t.Errorf("answered %d", got)
			}
		}
		if api.asked != 1 {
			t.Errorf("the API server was asked %d times", api.asked)
		}
		<-time.After(goodAge)
		api.away = true
		if got := ask(g, "Bearer scraper"); got != http.StatusServiceUnavailable {
			t.Errorf("while the API server is away: %d", got)
		}
		api.away = false
		if got := ask(g, "Bearer scraper"); got != http.StatusOK {
			t.Errorf("when it is back: %d", got)
		}
	})
}

// Over TLS, and nothing but metrics.
func TestServe(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "one"}, func() float64 { return 1 }))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, address, registry, newAPIServer()) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	get := func(url string) (status int, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer scraper")
		answer, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	var status int
	var body string
	wait.Eventually(t, wait.Patience, "the server", func(context.Context) error {
		if status, body = get("https://" + address + "/metrics"); status == 0 {
			return errors.New(body)
		}
		return nil
	})
	if status != http.StatusOK || !strings.Contains(body, "\none 1") {
		t.Errorf("metrics: %d %s", status, body)
	}
	for _, path := range []string{"/verdicts", "/readyz", "/debug/pprof/", "/"} {
		if status, _ := get("https://" + address + path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := get("http://" + address + "/metrics"); status == http.StatusOK {
		t.Error("metrics without TLS")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStrangersKeepNoConnection: who shows no good token is answered once and has no connection after that, a scraper keeps one
// until it has been idle for long enough, and connections that say nothing keep nobody away.
func TestStrangersKeepNoConnection(t *testing.T) {
	t.Parallel()
	certificate, err := ownCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(certificate,
		Guard(newAPIServer(), metricsPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") })))
	server.IdleTimeout /= 8
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Serve(ctx, server, bounded(listener), 0) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	dial := func() *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if conn.ConnectionState().NegotiatedProtocol == "h2" {
			t.Error("it speaks HTTP/2")
		}
		return conn
	}
	// ask returns once the answer has come; ends returns when the connection has.
	ask := func(conn net.Conn, lines ...string) (status int) {
		t.Helper()
		fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n%s\r\n", strings.Join(lines, ""))
		answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.ReadAll(answer.Body)
		return answer.StatusCode
	}
	ends := func(what string, conn net.Conn, within time.Duration) {
		t.Helper()
		defer wait.Limit(conn, within)()
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection goes on: %v", what, err)
		}
	}
	for what, lines := range map[string][]string{
		"no token": nil, "made up": {"Authorization: Bearer made-up\r\n"}, "a body that never comes": {"Content-Length: 1000\r\n"},
	} {
		conn := dial()
		if got := ask(conn, lines...); got != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", what, got)
		}
		ends(what, conn, server.IdleTimeout*2/3)
	}
	const scraper = "Authorization: Bearer scraper\r\n"
	prometheus := dial()
	ask(prometheus, scraper)
	for range 2 * maxOfOne {
		_, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(prometheus, scraper); got != http.StatusOK {
		t.Errorf("a scraper's next request is answered %d", got)
	}
	if got := ask(dial(), scraper); got != http.StatusOK {
		t.Errorf("beside connections that say nothing: %d", got)
	}
	ends("an idle scraper", prometheus, 4*server.IdleTimeout)
}
