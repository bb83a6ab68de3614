package inspectapi

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/process/gate"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// agentTime bounds the making of a connection to a node's socket.
const agentTime = 10 * time.Second

// nodeConnector connects users to the sockets of nodes' Open vSwitch and OVN. What goes through, the gate beside the socket
// decides: the agent is told whether a connection may write.
type nodeConnector struct {
	*handler
	nodes  Nodes
	agents askConnect
	bounds connectBounds
	crowd  *turns.Turns
}

func newNodeConnector(h *handler, nodes Nodes, agents askConnect, bounds connectBounds) *nodeConnector {
	return &nodeConnector{handler: h, nodes: nodes, agents: agents, bounds: bounds, crowd: bounds.crowd("connections to nodes")}
}

// ServeHTTP implements http.Handler. It returns when the connection has ended.
func (c *nodeConnector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted, q, err := c.admit(w, r)
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
	log := c.log.With("user", wanted.who.Name, "node", wanted.name, "socket", q.Socket, "bridge", q.Bridge, "writes", wanted.writes)
	connecting, cancel := context.WithTimeout(r.Context(), agentTime)
	defer cancel()
	addresses, err := c.nodes.NodeAddresses(connecting, wanted.name)
	if err != nil {
		c.fail(w, err)
		return
	}
	agent, err := c.agents(connecting, snapshot.Sender{Node: wanted.name, Addresses: addresses}, q)
	if err != nil {
		log.Warn("nobody can be connected to a node", "error", err)
		c.fail(w, agentProblem(err))
		return
	}
	began := time.Now()
	log.Info("somebody is connected to a node")
	websocket.Server{Handshake: speaks(api.NodeProtocol), Handler: func(client *websocket.Conn) {
		client.PayloadType = websocket.BinaryFrame
		ctx, end := context.WithTimeoutCause(r.Context(), c.bounds.lasts, errOld)
		defer end()
		_, why := gate.Join(c.whileAllowed(ctx, wanted, c.bounds.again), client, agent, gate.Open, gate.Unfollowed{}, c.bounds.Bounds)
		log.Info("a connection to a node has ended", "after", time.Since(began).Round(time.Millisecond), "why", why)
	}}.ServeHTTP(w, r)
	_ = agent.Close() // It is still open if the handshake has failed.
}

// admit says what is asked for, if who asks may have it.
func (c *nodeConnector) admit(w http.ResponseWriter, r *http.Request) (ask, nodeapi.ConnectQuestion, error) {
	wanted, err := c.asked(w, r, api.ResourceNodes)
	if err != nil {
		return ask{}, nodeapi.ConnectQuestion{}, err
	}
	query := r.URL.Query()
	q := nodeapi.ConnectQuestion{
		User: wanted.who.Name, Socket: query.Get(api.NodeSocket), Bridge: query.Get(api.NodeBridge), Write: wanted.writes,
	}
	if err := q.Check(); err != nil {
		return ask{}, q, apierrors.NewBadRequest(err.Error())
	}
	return wanted, q, upgrades(r, api.NodeProtocol)
}
