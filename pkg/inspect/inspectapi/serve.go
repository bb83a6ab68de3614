package inspectapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/process/connlimit"
	"github.com/atoll-net/atoll/pkg/process/daemon"
)

// answerTime bounds an answer, with all that is asked for it.
const answerTime = 30 * time.Second

// Config says what is served, and how.
type Config struct {
	Client kubernetes.Interface
	// Sources are what is answered from.
	Sources snapshot.Sources
	// Agents send packets from pods, and capture them. FlowAgents tell who talks to whom, and CheckAgents check nodes.
	Agents      Agents
	FlowAgents  FlowAgents
	CheckAgents CheckAgents
	// AllNodes says which nodes are checked; nil: Sources does.
	AllNodes AllNodes
	// Databases are those that users may be connected to, by their names in the API.
	Databases map[string]ovsdb.Asker
	// TLS has the certificate by which the API server tells who answers.
	TLS *tls.Config
	Log *slog.Logger
}

// Serve serves at address until ctx ends.
func Serve(ctx context.Context, address string, c Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for inspection: %w", err)
	}
	return ServeOn(ctx, listener, c)
}

// ServeOn is Serve at a listener, which it closes.
func ServeOn(ctx context.Context, listener net.Listener, c Config) error {
	if c.TLS == nil {
		_ = listener.Close()
		return errors.New("serve inspection: without a certificate the API server cannot tell who answers")
	}
	authn := newAuthenticator(c.Client, c.Log)
	from := sources{c.Sources}
	if c.AllNodes == nil {
		c.AllNodes = from
	}
	h := &handler{answers: answersFrom(c.Sources), authn: authn, authz: newAuthorizer(c.Client), log: c.Log, places: newPlaces()}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() { authn.follow(ctx) })
	config := c.TLS.Clone()
	// Who is shown, is verified with each request: the API server's CA may change.
	config.ClientAuth = tls.RequestClientCert
	flower, checker := newFlower(h, from, c.FlowAgents), newChecker(h, c.AllNodes, c.CheckAgents)
	h.prover = newProver(from, c.Agents)
	server := &http.Server{
		Handler: h.root(map[string]http.Handler{
			flowsPattern: flower, flowsNamePattern: flower, podFlowsPattern: flower,
			nodeChecksPattern: checker, nodeCheckPattern: checker, repairPattern: checker,
			pingPattern: newPinger(h, from, c.Agents.Ping), capturePattern: newCapturer(h, from, c.Agents.Capture),
			connectionPattern: newConnector(h, c.Databases, defaultBounds()), nodePattern: newNodeConnector(h, from, c.Agents.Connect,
				defaultBounds()),
		}), TLSConfig: config,
		ReadHeaderTimeout: daemon.HeaderTime, ReadTimeout: answerTime, WriteTimeout: 2 * answerTime, IdleTimeout: time.Minute,
		ConnContext: connlimit.Context, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	// API servers are known by their certificate. All others are few, and the oldest connection makes place for the newest.
	strangers := connlimit.Strangers{Each: 16, All: 128}
	return daemon.Serve(ctx, server, strangers.Listen(listener, 256), 0)
}
