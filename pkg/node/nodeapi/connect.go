package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/ovs/unixctl"
	"github.com/atoll-net/atoll/pkg/process/gate"
	"github.com/atoll-net/atoll/pkg/process/pipe"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

const (
	pathConnect = "/connect"
	// upgrade is what a connection becomes: the bytes of a socket.
	upgrade = "atoll-socket"
	// maxConnections is how many an agent has at the same time.
	maxConnections = 8
	// connectionTime is how long one lasts at most: atoll-inspect ends it before.
	connectionTime = time.Hour + time.Minute
)

// connectionBounds are those at the agent's end. atoll-inspect has the same.
var connectionBounds = gate.Bounds{Idle: 5 * time.Minute, Stuck: 30 * time.Second}

// The sockets of a node, beside those of the daemons that take commands (unixctl.Daemons).
const (
	// SocketDatabase is that of its Open vSwitch's database.
	SocketDatabase = "database"
	// SocketOpenFlow is that of a bridge.
	SocketOpenFlow = "openflow"
)

// Sockets are all of them.
func Sockets() []string {
	return append([]string{SocketDatabase, SocketOpenFlow}, unixctl.Daemons()...)
}

// ConnectQuestion asks for a connection to a socket of the node's Open vSwitch or OVN. atoll-inspect has seen to it that the user
// may have it.
type ConnectQuestion struct {
	// User is on whose account, for the log.
	User   string `json:"user"`
	Socket string `json:"socket"`
	// Bridge is the one that SocketOpenFlow is of.
	Bridge string `json:"bridge,omitempty"`
	// Write: what goes through may change something.
	Write bool `json:"write,omitempty"`
}

// Check says what is wrong with it.
func (q ConnectQuestion) Check() error {
	switch {
	case q.User == "":
		return errors.New("a question says on whose account it is asked")
	case !slices.Contains(Sockets(), q.Socket):
		return fmt.Errorf("there is no socket %q, only %s", gate.Printable(q.Socket), strings.Join(Sockets(), ", "))
	case q.Socket == SocketOpenFlow && !IsBridgeName(q.Bridge):
		return fmt.Errorf("%q is no name of a bridge", gate.Printable(q.Bridge))
	case q.Socket != SocketOpenFlow && q.Bridge != "":
		return fmt.Errorf("the socket %s is of no bridge", q.Socket)
	}
	return nil
}

func (q ConnectQuestion) by() turns.Who { return share(turns.Who{}, q.User) }

// IsBridgeName reports whether a bridge may have a name. Open vSwitch makes a file of it.
func IsBridgeName(name string) bool {
	const longest = 64
	return name != "" && len(name) <= longest && name[0] != '.' && name[0] != '-' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// Gate joins a client with a socket as far as the client may use it.
type Gate interface {
	Join(ctx context.Context, client, server net.Conn, b gate.Bounds) (refused int, why error)
}

func (h *handler) connect(w http.ResponseWriter, r *http.Request) {
	q, leave, ok := begin[ConnectQuestion](w, r, maxQuestion, h.connections)
	if !ok {
		return
	}
	defer leave()
	log := h.log.With("user", shortened(q.User), "socket", q.Socket, "bridge", q.Bridge, "writes", q.Write)
	server, through, err := h.answers.Connect(r.Context(), q)
	if err != nil {
		log.Info("nobody is connected to a socket of the node", "error", err)
		refuseFor(w, err)
		return
	}
	defer func() { _ = server.Close() }()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("take over the connection: %w", err))
		return
	}
	defer func() { _ = client.Close() }()
	log.Info("somebody is connected to a socket of the node")
	began := time.Now()
	// Of the request's context, which ends with the agent, and not with the client's next words.
	ctx, cancel := context.WithTimeout(r.Context(), connectionTime)
	defer cancel()
	refused, why := 0, upgraded(client)
	if why == nil {
		refused, why = through.Join(ctx, pipe.Ahead{Conn: client, From: rest(client, buffered.Reader)}, server, connectionBounds)
	}
	log.Info("a connection to a socket of the node has ended", "after", time.Since(began).Round(time.Millisecond), "refused", refused, "why",
		why)
}

// upgraded tells the client that the connection is the socket's from now on.
func upgraded(client net.Conn) error {
	if err := client.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return fmt.Errorf("answer with an upgrade: %w", err)
	}
	if _, err := fmt.Fprintf(client, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgrade); err != nil {
		return fmt.Errorf("answer with an upgrade: %w", err)
	}
	return nil
}

// rest is what was read ahead of a connection, and then the connection itself: net/http's own reader would end the request's
// context with the connection, and say no reason.
func rest(conn net.Conn, ahead *bufio.Reader) io.Reader {
	read, _ := ahead.Peek(ahead.Buffered()) // That much is there.
	return io.MultiReader(bytes.NewReader(bytes.Clone(read)), conn)
}

// Connect connects to a socket of the node. Its error is an UnreachableError or a RefusedError. ctx bounds the making of the
// connection alone.
func (c Client) Connect(ctx context.Context, q ConnectQuestion) (net.Conn, error) {
	q.User = bounded(q.User)
	if err := q.Check(); err != nil {
		return nil, &RefusedError{What: err.Error()}
	}
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("write a question: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://agent"+pathConnect, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", upgrade)
	conn, err := c.dial(ctx, "tcp", "")
	if err != nil {
		return nil, &UnreachableError{c.Node, err}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	ahead := bufio.NewReader(conn)
	answer, err := exchange(conn, ahead, request)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, &UnreachableError{c.Node, err}
	}
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != upgrade {
		defer func() { stop(); _, _ = answer.Body.Close(), conn.Close() }()
		return nil, refusal(c.Node, answer)
	}
	if !stop() {
		return nil, &UnreachableError{c.Node, context.Cause(ctx)}
	}
	return pipe.Ahead{Conn: conn, From: ahead}, nil
}

// exchange sends a request, and reads what it is answered but for the body, which may take no longer than an answer may.
func exchange(conn net.Conn, ahead *bufio.Reader, request *http.Request) (*http.Response, error) {
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, fmt.Errorf("ask for an upgrade: %w", err)
	}
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("ask for an upgrade: %w", err)
	}
	answer, err := http.ReadResponse(ahead, request)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}
