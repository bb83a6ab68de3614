package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Listen listens on loopback only: whoever reaches the page sees what its user may see.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--address: %w: write HOST:PORT, such as 127.0.0.1:0", err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.Unmap().IsLoopback() {
		return nil, fmt.Errorf(
			"--address: %q is not on this machine alone: write 127.0.0.1 or [::1]. From another machine, forward the port: ssh -L", address)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// tokenKey is the name of the query parameter with the token.
const tokenKey = "token"

const (
	// tokenLife is how long the printed address is valid. It works once.
	tokenLife = time.Minute
	// sessionLife is how long the session of the browser lasts: a day's work.
	sessionLife = 8 * time.Hour
)

// guard admits only the browser that opened the printed address, while its session lasts.
type guard struct {
	// cookie is the name of the session's cookie. Browsers share cookies between ports, so the name has the port and a part of this
	// process's own.
	cookie string
	// hosts are the allowed values of the Host header. The first is in the printed address.
	hosts []string
	next  http.Handler
	now   func() time.Time
	// offer is called with each further address.
	offer func(address string)

	mu sync.Mutex
	// token opens a session, once; then it is empty. made is when the token was made.
	token string
	made  time.Time
	// session is the value of the cookie; empty before there is a session. user is the user who opened it, ends its end.
	session string
	user    int
	ends    time.Time
}

// newGuard makes a guard with its first token.
func newGuard(at net.Addr, offer func(string), next http.Handler) (*guard, error) {
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, fmt.Errorf("read own address: %w", err)
	}
	g := &guard{
		cookie: "atoll-ui-" + port + "-" + rand.Text()[:8], next: next, now: time.Now, offer: offer,
		hosts: []string{at.String(), "localhost:" + port, "127.0.0.1:" + port},
	}
	g.renew()
	return g, nil
}

// renew makes a random token of 128 bits.
func (g *guard) renew() { g.token, g.made = rand.Text(), g.now() }

// address returns the address that opens the page.
func (g *guard) address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addressOf(g.token)
}

func (g *guard) addressOf(token string) string {
	u := url.URL{Scheme: "http", Host: g.hosts[0], Path: "/", RawQuery: url.Values{tokenKey: {token}}.Encode()}
	return u.String()
}

// exchange trades the last printed token for the value of a cookie. A previous session ends.
func (g *guard) exchange(token string, r *http.Request) (value string, err error) {
	user, err := userOf(r)
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !same(token, g.token) || g.now().Sub(g.made) >= tokenLife {
		return "", errors.New("this address can be opened no more")
	}
	g.token = ""
	g.session, g.user, g.ends = rand.Text(), user, g.now().Add(sessionLife)
	return g.session, nil
}

// lets returns an error unless a request belongs to the session: it needs the cookie, and must come from the user who opened it.
func (g *guard) lets(r *http.Request) error {
	c, err := r.Cookie(g.cookie)
	if err != nil {
		return errors.New("this browser has not opened this page")
	}
	user, err := userOf(r)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.session == "" || !same(c.Value, g.session):
		return errors.New("this browser's session is not the last that was opened")
	case user != g.user:
		return errors.New("another user of this machine has opened this page")
	case !g.now().Before(g.ends):
		return fmt.Errorf("the session has lasted %s, and is over", sessionLife)
	}
	return nil
}

// again offers a new address when the last one is no longer valid. Any user of this machine can cause this, at most once a minute.
func (g *guard) again() {
	g.mu.Lock()
	due := g.now().Sub(g.made) >= tokenLife
	if due {
		g.renew()
	}
	address := g.addressOf(g.token)
	g.mu.Unlock()
	if due {
		g.offer(address)
	}
}

// refuse says why, and what to do. What an old page asks for by itself offers no address.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, why error) {
	if r.URL.Path == "/" {
		g.again()
	}
	http.Error(w,
		fmt.Sprintf("%v. Next: open the address that atoll ui has printed last: it opens once, within a minute. When it is older, go to "+
			"http://%s/, and atoll ui prints another", why, g.hosts[0]), http.StatusForbidden)
}

// policy is the Content-Security-Policy: a page may load its own files only, and inline scripts and styles do not run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(key, value)
	}
	// An attacker's DNS name may resolve to loopback (DNS rebinding). The browser then sends that name as the Host.
	if !slices.Contains(g.hosts, r.Host) {
		http.Error(w, "this page is not called "+inspectable(r.Host), http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "this page only reads", http.StatusMethodNotAllowed)
		return
	}
	if given := r.URL.Query().Get(tokenKey); given != "" && r.URL.Path == "/" && r.Method == http.MethodGet {
		value, err := g.exchange(given, r)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		// Not Secure: loopback speaks HTTP.
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: loopback has no TLS
			Name: g.cookie, Value: value, Path: "/", MaxAge: int(sessionLife.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if err := g.lets(r); err != nil {
		g.refuse(w, r, err)
		return
	}
	if !g.ownOrigin(r.Header) {
		http.Error(w, "another site asks", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

// ownOrigin reports whether a request comes from the page itself, or from a user who typed its address.
func (g *guard) ownOrigin(h http.Header) bool {
	if origin := h.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" || !slices.Contains(g.hosts, u.Host) {
			return false
		}
	}
	site := h.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// inspectable is a short text of somebody else's.
func inspectable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 80)])
}
