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
		"0.0.0.0:0": "not on this machine alone", ":0": "not on this machine alone", "[::]:0": "not on this machine alone",
		"192.0.2.1:80":   "not on this machine alone",
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

// watch is a guard, with its time, and the addresses that it had printed after the first.
type watch struct {
	*guard
	clock   time.Time
	offered []string
}

// guarded is a page with its guard, at a port that nobody listens at.
func guarded(t *testing.T) *watch {
	t.Helper()
	w := &watch{clock: flowsNow}
	g, err := newGuard(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4321}, func(a string) { w.offered = append(w.offered, a) },
		newSite(t, &cluster{networks: []api.Network{golden[api.Network](t, "inspect-network-red")}}).routes)
	if err != nil {
		t.Fatal(err)
	}
	g.now = func() time.Time { return w.clock }
	g.renew()
	w.guard = g
	return w
}

// reply is what of an answer matters here.
type reply struct {
	StatusCode int
	Header     http.Header
}

// ask is what a user gets, by the page's own name.
func (w *watch) ask(t *testing.T, user int, method, path, cookie string, change func(*http.Request)) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connectionKey{}, &connection{user: user}), method, path, nil)
	r.Host = "127.0.0.1:4321"
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: w.cookie, Value: cookie})
	}
	if change != nil {
		change(r)
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return reply{answer.Code, answer.Header()}
}

// enter opens the page as a user, with the token that was printed last.
func (w *watch) enter(t *testing.T, user int) (cookie string) {
	t.Helper()
	answer := w.ask(t, user, http.MethodGet, "/?token="+w.token, "", nil)
	c, err := http.ParseSetCookie(answer.Header.Get("Set-Cookie"))
	if answer.StatusCode != http.StatusSeeOther || err != nil {
		t.Fatalf("the token does not open the page: status %d, %v", answer.StatusCode, err)
	}
	return c.Value
}

// user and stranger are two users of the machine.
const user, stranger = 1000, 1001

// TestWhoGetsIn: who has the token and asks by the page's own name, and nobody else. Each that is refused differs in one thing
// from one that is not.
func TestWhoGetsIn(t *testing.T) {
	t.Parallel()
	g := guarded(t)
	session := g.enter(t, user)
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
		"another token":              {"GET", "/networks", header("Cookie", g.cookie+"=x"+session[1:]), 403},
		"another port's cookie":      {"GET", "/networks", header("Cookie", strings.Replace(g.cookie, "4321", "1", 1)+"="+session), 403},
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
		"the token":                  {"GET", "/?token=TOKEN", header("Cookie", ""), 303},
		"the token, to look":         {"HEAD", "/?token=TOKEN", header("Cookie", ""), 403},
		"the token, as a cookie":     {"GET", "/networks", header("Cookie", g.cookie+"=TOKEN"), 403},
		"the cookie, as a token":     {"GET", "/?token=" + session, header("Cookie", ""), 403},
		"the token, by another name": {"GET", "/?token=TOKEN", func(r *http.Request) { r.Host = "evil.example" }, 421},
		"the token, elsewhere":       {"GET", "/networks?token=TOKEN", header("Cookie", ""), 403},
	} {
		// Each has a token that has not been used, and the session that is open.
		g.renew()
		g.session = session
		answer := g.ask(t, user, c.method, strings.Replace(c.path, "TOKEN", g.token, 1), session, func(r *http.Request) {
			if c.change != nil {
				c.change(r)
			}
			r.Header.Set("Cookie", strings.Replace(r.Header.Get("Cookie"), "TOKEN", g.token, 1))
		})
		if answer.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", what, answer.StatusCode, c.want)
		}
		for key, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		} {
			if have := answer.Header.Get(key); have != want {
				t.Errorf("%s: %s is %q", what, key, have)
			}
		}
		set := answer.Header.Values("Set-Cookie")
		if (c.want == 303) != (len(set) == 1) {
			t.Errorf("%s: it sets %q", what, set)
		}
		for _, cookie := range set {
			if !strings.Contains(cookie, "; HttpOnly") || !strings.Contains(cookie, "; SameSite=Strict") ||
				!strings.Contains(cookie, "; Max-Age=28800") || answer.Header.Get("Location") != "/" {
				t.Errorf("%s: it sets %q, and leads to %q", what, cookie, answer.Header.Get("Location"))
			}
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "script-src 'self';") {
		t.Errorf("the policy is %s", policy)
	}
	one, other := guarded(t), guarded(t)
	if one.token == other.token || one.cookie == other.cookie || len(one.token) < 26 || len(session) < 26 {
		t.Errorf("tokens are %q and %q, cookies %q and %q", one.token, other.token, one.cookie, other.cookie)
	}
}

// TestTheAddressOpensOnce, within a minute: whoever finds it later, in a terminal or a history, does not get in. The control is
// the first time.
func TestTheAddressOpensOnce(t *testing.T) {
	t.Parallel()
	g := guarded(t)
	first := g.token
	session := g.enter(t, user)
	if answer := g.ask(t, user, http.MethodGet, "/?token="+first, "", nil); answer.StatusCode != http.StatusForbidden ||
		answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("it opens again: %d", answer.StatusCode)
	}
	if len(g.offered) != 0 {
		t.Errorf("within the minute another address is printed: %q", g.offered)
	}
	// An old page asks by itself.
	g.clock = g.clock.Add(tokenLife)
	g.ask(t, stranger, http.MethodGet, "/flows", "", nil)
	if len(g.offered) != 0 {
		t.Errorf("nobody has asked for another address: %q", g.offered)
	}
	for range 2 {
		g.ask(t, user, http.MethodGet, "/", "", nil)
	}
	if len(g.offered) != 1 || g.offered[0] != "http://127.0.0.1:4321/?token="+g.token || g.token == first {
		t.Fatalf("after the minute is printed %q", g.offered)
	}
	second := g.token
	g.clock = g.clock.Add(tokenLife)
	if answer := g.ask(t, user, http.MethodGet, "/?token="+second, "", nil); answer.StatusCode != http.StatusForbidden {
		t.Errorf("it opens after a minute: %d", answer.StatusCode)
	}
	if g.token == second || len(g.offered) != 2 {
		t.Errorf("whoever comes too late is offered none: %q", g.offered)
	}
	// Another browser: the session of the first ends.
	if answer := g.ask(t, user, http.MethodGet, "/networks", session, nil); answer.StatusCode != http.StatusOK {
		t.Errorf("the first browser is out before another is in: %d", answer.StatusCode)
	}
	other := g.enter(t, user)
	for cookie, want := range map[string]int{session: http.StatusForbidden, other: http.StatusOK} {
		if answer := g.ask(t, user, http.MethodGet, "/networks", cookie, nil); answer.StatusCode != want {
			t.Errorf("with a second browser in: %d, want %d", answer.StatusCode, want)
		}
	}
}

// TestASessionEnds: the cookie is worth nothing after its time, whatever the browser does with it.
func TestASessionEnds(t *testing.T) {
	t.Parallel()
	g := guarded(t)
	session := g.enter(t, user)
	for after, want := range map[time.Duration]int{
		0: http.StatusOK, sessionLife - time.Second: http.StatusOK, sessionLife: http.StatusForbidden,
	} {
		g.clock = flowsNow.Add(after)
		if answer := g.ask(t, user, http.MethodGet, "/networks", session, nil); answer.StatusCode != want {
			t.Errorf("after %s: %d, want %d", after, answer.StatusCode, want)
		}
	}
}

// TestAStolenCookie: a browser sends it to whoever listens at another port of loopback. Another user of the machine, who may have
// got it so, is not let in with it. The control is the user who opened the page.
func TestAStolenCookie(t *testing.T) {
	t.Parallel()
	g := guarded(t)
	if answer := g.ask(t, unknownUser, http.MethodGet, "/?token="+g.token, "", nil); answer.StatusCode != http.StatusForbidden {
		t.Errorf("one whom the kernel does not tell opens it: %d", answer.StatusCode)
	}
	session := g.enter(t, user)
	for who, want := range map[int]int{
		user: http.StatusOK, stranger: http.StatusForbidden, unknownUser: http.StatusForbidden, 0: http.StatusForbidden,
	} {
		if answer := g.ask(t, who, http.MethodGet, "/networks", session, nil); answer.StatusCode != want {
			t.Errorf("user %d: %d, want %d", who, answer.StatusCode, want)
		}
	}
}

// TestRun: it serves at the address that it tells, and leaves nothing behind when it ends.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := Listen("127.0.0.1:0")
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
