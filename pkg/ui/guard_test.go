package ui

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// TestListen: on loopback, and nowhere else.
func TestListen(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:0": "", "localhost:0": "", "127.3.2.1:0": "",
		"0.0.0.0:0": "not on this machine alone", ":0": "not on this machine alone", "[::]:0": "not on this machine alone", "192.0.2.1:80": "not on this machine alone",
		"example.com:80": "not on this machine alone", "127.0.0.1": "write HOST:PORT",
	} {
		l, err := Listen(address)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", address, err)
				continue
			}
			if a, is := l.Addr().(*net.TCPAddr); !is || !a.IP.IsLoopback() {
				t.Errorf("%s: it listens at %s", address, l.Addr())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

// guarded is a page with its guard, at a port that nobody listens at.
func guarded(t *testing.T) *guard {
	t.Helper()
	g, err := newGuard(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4321}, newSite(t, &cluster{networks: []api.Network{golden[api.Network](t, "inspect-network-red")}}).routes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestWhoGetsIn: who has the token and asks by the page's own name, and nobody else. Each that is refused differs in one thing from one that is not.
func TestWhoGetsIn(t *testing.T) {
	t.Parallel()
	g := guarded(t)
	ask := func(method, path string, change func(*http.Request)) *http.Response {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Host = "127.0.0.1:4321"
		r.AddCookie(&http.Cookie{Name: g.cookie, Value: g.token})
		if change != nil {
			change(r)
		}
		answer := httptest.NewRecorder()
		g.ServeHTTP(answer, r)
		return answer.Result()
	}
	header := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(key, value) }
	}
	for what, c := range map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"control":                    {"GET", "/networks", nil, 200},
		"by localhost":               {"GET", "/networks", func(r *http.Request) { r.Host = "localhost:4321" }, 200},
		"own origin":                 {"GET", "/networks", header("Origin", "http://127.0.0.1:4321"), 200},
		"own page":                   {"GET", "/networks", header("Sec-Fetch-Site", "same-origin"), 200},
		"typed":                      {"GET", "/networks", header("Sec-Fetch-Site", "none"), 200},
		"no cookie":                  {"GET", "/networks", header("Cookie", ""), 403},
		"another token":              {"GET", "/networks", header("Cookie", g.cookie+"=x"+g.token[1:]), 403},
		"another port's cookie":      {"GET", "/networks", header("Cookie", "atoll-ui-1="+g.token), 403},
		"a name that leads here":     {"GET", "/networks", func(r *http.Request) { r.Host = "evil.example:4321" }, 421},
		"another port":               {"GET", "/networks", func(r *http.Request) { r.Host = "127.0.0.1:80" }, 421},
		"another origin":             {"GET", "/networks", header("Origin", "http://evil.example"), 403},
		"another port's origin":      {"GET", "/networks", header("Origin", "http://127.0.0.1:80"), 403},
		"nobody's origin":            {"GET", "/networks", header("Origin", "null"), 403},
		"another site":               {"GET", "/networks", header("Sec-Fetch-Site", "cross-site"), 403},
		"another port, as browsers":  {"GET", "/networks", header("Sec-Fetch-Site", "same-site"), 403},
		"it writes":                  {"POST", "/networks", nil, 405},
		"static files without":       {"GET", "/static/atoll.css", header("Cookie", ""), 403},
		"static files":               {"GET", "/static/atoll.css", nil, 200},
		"the map without":            {"GET", "/graph", header("Cookie", ""), 403},
		"the map":                    {"GET", "/graph", nil, 200},
		"flows without":              {"GET", "/graph/flows", header("Cookie", ""), 403},
		"flows of another site":      {"GET", "/graph/flows", header("Sec-Fetch-Site", "cross-site"), 403},
		"flows":                      {"GET", "/graph/flows", nil, 200},
		"the wrong token":            {"GET", "/?token=" + strings.Repeat("A", 26), header("Cookie", ""), 403},
		"the token":                  {"GET", "/?token=" + g.token, header("Cookie", ""), 303},
		"the token, by another name": {"GET", "/?token=" + g.token, func(r *http.Request) { r.Host = "evil.example" }, 421},
		"the token, elsewhere":       {"GET", "/networks?token=" + g.token, header("Cookie", ""), 403},
	} {
		answer := ask(c.method, c.path, c.change)
		if answer.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", what, answer.StatusCode, c.want)
		}
		for key, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if have := answer.Header.Get(key); have != want {
				t.Errorf("%s: %s is %q", what, key, have)
			}
		}
		set := answer.Header.Values("Set-Cookie")
		if (c.want == 303) != (len(set) == 1) {
			t.Errorf("%s: it sets %q", what, set)
		}
		for _, cookie := range set {
			if !strings.Contains(cookie, "; HttpOnly") || !strings.Contains(cookie, "; SameSite=Strict") || answer.Header.Get("Location") != "/" {
				t.Errorf("%s: it sets %q, and leads to %q", what, cookie, answer.Header.Get("Location"))
			}
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "script-src 'self';") {
		t.Errorf("the policy is %s", policy)
	}
	if other := guarded(t); other.token == g.token || len(g.token) < 26 {
		t.Errorf("tokens are %q and %q", g.token, other.token)
	}
}

// TestRun: it serves at the address that it tells, and leaves nothing behind when it ends.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(l, Config{Source: &cluster{}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	browser := newBrowser(t)
	if status, at := browser.get(s.Address()); status != http.StatusOK || at.Path != "/" || at.RawQuery != "" {
		t.Errorf("status %d at %s", status, at)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	browser.client.CloseIdleConnections()
}

// browser keeps cookies, and nothing else.
type browser struct {
	t      *testing.T
	client *http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	return &browser{t, &http.Client{Jar: jar{}, Transport: &http.Transport{}}}
}

// jar holds cookies of one host.
type jar map[string]*http.Cookie

// SetCookies implements http.CookieJar.
func (j jar) SetCookies(_ *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		j[c.Name] = c
	}
}

// Cookies implements http.CookieJar.
func (j jar) Cookies(*url.URL) (out []*http.Cookie) {
	for _, c := range j {
		out = append(out, c)
	}
	return out
}

// get is the status of an address, and where it leads.
func (b *browser) get(address string) (int, *url.URL) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, answer.Request.URL
}

// waiting asks until it is let go on.
type waiting struct {
	cluster
	began, end chan struct{}
}

// Networks implements Source.
func (w *waiting) Networks(context.Context) ([]api.Network, string, error) {
	w.began <- struct{}{}
	<-w.end
	return nil, "", nil
}

// TestFewAtATime: more requests than are answered at a time wait, and are answered when others have been.
func TestFewAtATime(t *testing.T) {
	t.Parallel()
	w := &waiting{began: make(chan struct{}, 3*maxRequests), end: make(chan struct{})}
	s := newSite(t, w)
	done := make(chan int, maxRequests+1)
	for range maxRequests + 1 {
		go func() {
			answer := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/networks", nil)
			r.Header.Set("HX-Request", "true")
			s.routes.ServeHTTP(answer, r)
			done <- answer.Code
		}()
	}
	for range maxRequests {
		<-w.began
	}
	select {
	case <-w.began:
		t.Error("one too many is answered")
	default:
	}
	close(w.end)
	for range maxRequests + 1 {
		if code := <-done; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
}
