package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// maxRequests is how many requests are answered at a time, and slotPatience how long another waits for its turn.
	maxRequests  = 8
	slotPatience = 5 * time.Second
	// headerTime is how long a request may take to arrive, slack what an answer may take beyond what it asks for.
	headerTime, slack = 5 * time.Second, 10 * time.Second
	// maxHeader is how many bytes a request may have.
	maxHeader = 16 << 10
)

// Config is what a page is made with.
type Config struct {
	Source Source
	// Namespaces are those that the user has named: who may view a namespace alone can list none.
	Namespaces []string
	// Timeout is how long what is asked for one page may take.
	Timeout time.Duration
	// Offer is called with each address after the first that opens the page, at most once a minute.
	Offer func(address string)
}

// Server is a page that listens.
type Server struct {
	config   Config
	listener net.Listener
	guard    *guard
	slots    chan struct{}
	flows    *flowMemory
	// now is the time, and zone where it is told.
	now  func() time.Time
	zone *time.Location
}

func newServer(c Config) *Server {
	if len(c.Namespaces) > 0 {
		c.Source = namedSource{c.Source, c.Namespaces}
	}
	return &Server{config: c, slots: make(chan struct{}, maxRequests), flows: newFlowMemory(), now: time.Now, zone: time.Local}
}

// New makes a page that Run serves at a listener, which it closes.
func New(l net.Listener, c Config) (*Server, error) {
	s := newServer(c)
	s.listener = l
	var err error
	s.guard, err = newGuard(l.Addr(), c.Offer, s.routes())
	return s, err
}

// Address is the one to open first, once and within a minute. Who opens it sees what the user may see.
func (s *Server) Address() string { return s.guard.address() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: s.guard, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: slotPatience + s.config.Timeout + slack,
		MaxHeaderBytes: maxHeader,
		BaseContext:    func(net.Listener) context.Context { return ctx }, ConnContext: withConnection,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	err := server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("end the page: %w", err)
	}
	return nil
}

// routes are all that there is.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for path, show := range map[string]func(context.Context, *http.Request) (view, error){
		"GET /{$}": s.home, "GET /networks": s.networks, "GET /network/{name}": s.network, "GET /network/{name}/pods": s.pods,
		"GET /network/{name}/addresses": s.addresses,
		"GET /pod/{namespace}/{name}":   s.pod, "GET /explain": s.explain, "GET /search": s.search, "GET /status": s.status,
		"GET /peering": s.peering,
		"GET /flows":   s.flowsPage, "GET /line": s.line,
	} {
		mux.Handle(path, s.page(show))
	}
	mux.HandleFunc("GET /graph", s.bounded(s.graph))
	mux.HandleFunc("GET /graph/flows", s.bounded(s.graphFlows))
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.HandlerFunc(serveStatic)))
	return mux
}

// bounded answers few requests at a time, each within its time.
func (s *Server) bounded(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		turn := time.NewTimer(slotPatience)
		defer turn.Stop()
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-turn.C:
			http.Error(w, "too much is asked at a time; ask again in a moment", http.StatusServiceUnavailable)
			return
		case <-r.Context().Done():
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.config.Timeout)
		defer cancel()
		answer(w, r.WithContext(ctx))
	}
}
