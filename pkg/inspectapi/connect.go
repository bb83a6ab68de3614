package inspectapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/gate"
	"github.com/atoll-net/atoll/pkg/ovsdb"
)

// connectBounds bound connections to databases.
type connectBounds struct {
	gate.Bounds
	// every is how many there are at once, each how many one user has of them.
	every, each int
	// lasts is how long one lasts at most, and again how often it is asked whether its user still may have it.
	lasts, again time.Duration
}

func defaultBounds() connectBounds {
	return connectBounds{Bounds: gate.Bounds{Idle: 5 * time.Minute, Stuck: 30 * time.Second}, every: 16, each: 8, lasts: time.Hour, again: 30 * time.Second}
}

// dialTime bounds the search for a database's leader, with the connection to it.
const dialTime = 5 * time.Second

var (
	errOld       = errors.New("it has lasted as long as one may")
	errTakenAway = errors.New("its user may not have it any more")
)

// connector connects users to the databases, by the controller's own certificate: whoever is let through here may do there what the controller may, as
// far as the gate lets him.
type connector struct {
	*handler
	databases map[string]ovsdb.Asker
	bounds    connectBounds

	mu sync.Mutex
	// users are who has connections, and how many.
	users map[string]int
	all   int
}

// ask is what a connection is asked for.
type ask struct {
	who      user
	database string
	writes   bool
}

// ServeHTTP implements http.Handler. It returns when the connection has ended.
func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted, err := c.admit(r)
	if err != nil {
		c.fail(w, err)
		return
	}
	if err := c.enter(wanted.who.name); err != nil {
		c.fail(w, err)
		return
	}
	defer c.leave(wanted.who.name)
	asker := c.databases[wanted.database]
	dialling, cancel := context.WithTimeout(r.Context(), dialTime)
	server, address, err := asker.DialLeader(dialling)
	cancel()
	if err != nil {
		c.log.Warn("nobody can be connected to a database", "database", wanted.database, "error", err)
		c.fail(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	through := ovsdb.Gate{Database: asker.Database, Writes: wanted.writes, Hint: "Ask for one that writes (--write)"}
	began, log := time.Now(), c.log.With("user", wanted.who.name, "database", wanted.database, "writes", wanted.writes, "server", address)
	log.Info("somebody is connected to a database")
	websocket.Server{Handshake: speak, Handler: func(client *websocket.Conn) {
		client.PayloadType = websocket.BinaryFrame
		ctx, end := context.WithTimeoutCause(r.Context(), c.bounds.lasts, errOld)
		defer end()
		refused, why := through.Join(c.whileAllowed(ctx, wanted), client, server, c.bounds.Bounds)
		log.Info("a connection to a database has ended", "after", time.Since(began).Round(time.Millisecond), "refused", refused, "why", why)
	}}.ServeHTTP(w, r)
	_ = server.Close() // It is still open if the handshake has failed.
}

// speak agrees on the protocol.
func speak(config *websocket.Config, _ *http.Request) error {
	if !slices.Contains(config.Protocol, api.ProxyProtocol) {
		return websocket.ErrBadWebSocketProtocol
	}
	config.Protocol = []string{api.ProxyProtocol}
	return nil
}

// admit says what is asked for, if who asks may have it.
func (c *connector) admit(r *http.Request) (ask, error) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-r.Context().Done():
		return ask{}, apierrors.NewServiceUnavailable("who asked has gone")
	}
	who, err := c.identify(r)
	if err != nil {
		return ask{}, err
	}
	wanted := ask{who: who, database: r.PathValue("name"), writes: r.URL.Query().Get(api.ProxyWrite) == "true"}
	if err := c.may(r.Context(), wanted); err != nil {
		return ask{}, err
	}
	if _, known := c.databases[wanted.database]; !known {
		return ask{}, apierrors.NewNotFound(groupResource(api.ResourceDatabases), wanted.database)
	}
	if r.ProtoMajor != 1 || !slices.Contains(r.Header["Sec-Websocket-Protocol"], api.ProxyProtocol) {
		return ask{}, apierrors.NewBadRequest("this is a connection: ask for an upgrade to websocket with the protocol " + api.ProxyProtocol)
	}
	return wanted, nil
}

// may says whether somebody may have a connection: it is an error if not.
func (c *connector) may(ctx context.Context, wanted ask) error {
	verbs := []string{"get"}
	if wanted.writes {
		verbs = append(verbs, "update")
	}
	for _, verb := range verbs {
		what := attributes{verb: verb, resource: api.ResourceDatabases, subresource: api.SubresourceProxy, name: wanted.database}
		allowed, err := c.authz.may(ctx, wanted.who, what)
		if err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		if !allowed {
			return forbidden(wanted.who, what)
		}
	}
	return nil
}

// whileAllowed ends with ctx, and when the user's right has gone. While Kubernetes does not say, it is as it was.
func (c *connector) whileAllowed(ctx context.Context, wanted ask) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(c.bounds.again)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				end(nil)
				return
			case <-tick.C:
				if apierrors.IsForbidden(c.may(ctx, wanted)) {
					end(errTakenAway)
				}
			}
		}
	}()
	return ctx
}

// enter counts a connection, unless there are too many.
func (c *connector) enter(user string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.all >= c.bounds.every:
		return apierrors.NewTooManyRequests(fmt.Sprintf("there are %d connections to databases already, and no more at once", c.all), 1)
	case c.users[user] >= c.bounds.each:
		return apierrors.NewTooManyRequests(fmt.Sprintf("you have %d connections to databases already, and no more at once", c.users[user]), 1)
	}
	c.all++
	c.users[user]++
	return nil
}

func (c *connector) leave(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.users[user]--; c.users[user] == 0 {
		delete(c.users, user)
	}
}

// Databases names both for Config.
func Databases(northbound, southbound ovsdb.Asker) map[string]ovsdb.Asker {
	return map[string]ovsdb.Asker{api.DatabaseNorthbound: northbound, api.DatabaseSouthbound: southbound}
}
