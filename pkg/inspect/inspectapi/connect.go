package inspectapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/process/gate"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// connectBounds bound connections to databases, and those to nodes.
type connectBounds struct {
	gate.Bounds
	// every bounds the connections at the same time, each those of one user.
	every, each int
	// lasts bounds the duration of a connection. again is how often the user's right is checked anew.
	lasts, again time.Duration
}

// crowd makes the limiter of the connections. Only operators have the right.
func (b connectBounds) crowd(what string) *turns.Turns {
	return turns.New(what, turns.Bounds{Every: b.every, Each: b.each})
}

func defaultBounds() connectBounds {
	return connectBounds{
		Bounds: gate.Bounds{Idle: 5 * time.Minute, Stuck: 30 * time.Second}, every: 16, each: 8, lasts: time.Hour, again: 30 * time.Second,
	}
}

// dialTime bounds the search for a database's leader, with the connection to it.
const dialTime = 5 * time.Second

var (
	errOld       = errors.New("it has lasted as long as one may")
	errTakenAway = errors.New("its user may not have it any more")
)

// connector connects users to the databases with the certificate of atoll-inspect. A connected user has the rights of atoll-inspect
// there, as far as the gate allows.
type connector struct {
	*handler
	databases map[string]ovsdb.Asker
	bounds    connectBounds
	crowd     *turns.Turns
}

func newConnector(h *handler, databases map[string]ovsdb.Asker, bounds connectBounds) *connector {
	return &connector{handler: h, databases: databases, bounds: bounds, crowd: bounds.crowd("connections to databases")}
}

// ask is a request for a connection.
type ask struct {
	who   access.User
	share turns.Who
	// resource and name identify the target of the connection.
	resource, name string
	writes         bool
}

// ServeHTTP implements http.Handler. It returns when the connection has ended.
func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted, err := c.admit(w, r)
	if err != nil {
		c.fail(w, err)
		return
	}
	leave, err := enter(c.crowd, wanted.share)
	if err != nil {
		c.fail(w, err)
		return
	}
	defer leave()
	asker := c.databases[wanted.name]
	dialling, cancel := context.WithTimeout(r.Context(), dialTime)
	server, address, err := asker.DialLeader(dialling)
	cancel()
	if err != nil {
		c.log.Warn("nobody can be connected to a database", "database", wanted.name, "error", err)
		c.fail(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	through := ovsdb.Gate{Database: asker.Database, Writes: wanted.writes, Hint: "Ask for one that writes (--write)"}
	began, log := time.Now(), c.log.With("user", wanted.who.Name, "database", wanted.name, "writes", wanted.writes, "server", address)
	log.Info("somebody is connected to a database")
	websocket.Server{Handshake: speaks(api.ProxyProtocol), Handler: func(client *websocket.Conn) {
		client.PayloadType = websocket.BinaryFrame
		ctx, end := context.WithTimeoutCause(r.Context(), c.bounds.lasts, errOld)
		defer end()
		refused, why := through.Join(c.whileAllowed(ctx, wanted, c.bounds.again), client, server, c.bounds.Bounds)
		log.Info("a connection to a database has ended", "after", time.Since(began).Round(time.Millisecond), "refused", refused, "why", why)
	}}.ServeHTTP(w, r)
	_ = server.Close() // It is still open if the handshake has failed.
}

// speaks negotiates the websocket protocol.
func speaks(protocol string) func(*websocket.Config, *http.Request) error {
	return func(config *websocket.Config, _ *http.Request) error {
		if !slices.Contains(config.Protocol, protocol) {
			return websocket.ErrBadWebSocketProtocol
		}
		config.Protocol = []string{protocol}
		return nil
	}
}

// admit reads the request for a connection, and refuses it if the user may not have the connection.
func (c *connector) admit(w http.ResponseWriter, r *http.Request) (ask, error) {
	wanted, err := c.asked(w, r, api.ResourceDatabases)
	if err != nil {
		return ask{}, err
	}
	if _, known := c.databases[wanted.name]; !known {
		return ask{}, apierrors.NewNotFound(groupResource(api.ResourceDatabases), wanted.name)
	}
	return wanted, upgrades(r, api.ProxyProtocol)
}

// asked reads the request for a connection and checks the user's right. It looks up nothing else.
func (h *handler) asked(w http.ResponseWriter, r *http.Request, resource string) (wanted ask, err error) {
	_, left, err := h.comes(w, r, 0, func(asked request) error {
		wanted = ask{
			who: asked.who, share: asked.share, resource: resource, name: r.PathValue("name"), writes: r.URL.Query().Get(api.ProxyWrite) == "true",
		}
		return h.mayConnect(r.Context(), wanted)
	})
	if err != nil {
		return ask{}, err
	}
	left()
	return wanted, nil
}

// upgrades returns an error unless the request asks for an upgrade to websocket with a known protocol.
func upgrades(r *http.Request, protocol string) error {
	if r.ProtoMajor != 1 || !slices.Contains(r.Header["Sec-Websocket-Protocol"], protocol) {
		return apierrors.NewBadRequest("this is a connection: ask for an upgrade to websocket with the protocol " + protocol)
	}
	return nil
}

// mayConnect returns an error unless the user may have the connection.
func (h *handler) mayConnect(ctx context.Context, wanted ask) error {
	verbs := []string{"get"}
	if wanted.writes {
		verbs = append(verbs, "update")
	}
	for _, verb := range verbs {
		what := attributes{verb: verb, resource: wanted.resource, subresource: api.SubresourceProxy, name: wanted.name}
		allowed, err := h.authz.may(ctx, wanted.who, what)
		if err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		if !allowed {
			return forbidden(wanted.who, what)
		}
	}
	return nil
}

// whileAllowed returns a context that ends with ctx, or when the user loses the right. The right is checked at intervals; while
// Kubernetes does not answer, the last answer counts.
func (h *handler) whileAllowed(ctx context.Context, wanted ask, again time.Duration) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(again)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				end(nil)
				return
			case <-tick.C:
				if apierrors.IsForbidden(h.mayConnect(ctx, wanted)) {
					end(errTakenAway)
				}
			}
		}
	}()
	return ctx
}

// Databases maps the names of both databases to their Askers, for Config.
func Databases(northbound, southbound ovsdb.Asker) map[string]ovsdb.Asker {
	return map[string]ovsdb.Asker{api.DatabaseNorthbound: northbound, api.DatabaseSouthbound: southbound}
}
