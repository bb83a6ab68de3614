package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Listen listens on loopback alone: the page shows what its user may see, to whoever gets to it.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--address: %w: write HOST:PORT, such as 127.0.0.1:0", err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.Unmap().IsLoopback() {
		return nil, fmt.Errorf("--address: %q is not on this machine alone: write 127.0.0.1 or [::1]. From another machine, forward the port: ssh -L", address)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// tokenKey is the query of the first address.
const tokenKey = "token"

// guard lets through who has the token, as the page's own browser sends it.
type guard struct {
	token string
	// cookie is the name; browsers do not tell ports apart, so that it has the port.
	cookie string
	// hosts are how the page may be called.
	hosts []string
	next  http.Handler
}

// newGuard makes a token that nobody can guess: 128 bits.
func newGuard(at net.Addr, next http.Handler) (*guard, error) {
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, fmt.Errorf("read own address: %w", err)
	}
	return &guard{
		token: rand.Text(), cookie: "atoll-ui-" + port, next: next,
		hosts: []string{at.String(), "localhost:" + port, "127.0.0.1:" + port},
	}, nil
}

// policy is what the page may load: its own files. Scripts and styles in a page itself do not run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for key, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(key, value)
	}
	// Somebody's name may lead to loopback: then he is called by that name.
	if !slices.Contains(g.hosts, r.Host) {
		http.Error(w, "this page is not called "+inspectable(r.Host), http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "this page only reads", http.StatusMethodNotAllowed)
		return
	}
	if given := r.URL.Query().Get(tokenKey); given != "" && r.URL.Path == "/" {
		if !same(given, g.token) {
			http.Error(w, "the token is not that of this atoll ui: open the address that it printed", http.StatusForbidden)
			return
		}
		// Not Secure: loopback speaks HTTP.
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // G124: loopback has no TLS
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if c, err := r.Cookie(g.cookie); err != nil || !same(c.Value, g.token) {
		http.Error(w, "open the address that atoll ui printed: it has the token", http.StatusForbidden)
		return
	}
	if !g.ownOrigin(r.Header) {
		http.Error(w, "another site asks", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

// ownOrigin reports whether the page itself asks, or who types its address.
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
