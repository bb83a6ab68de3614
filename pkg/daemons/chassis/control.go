package chassis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// errDaemon wraps what a daemon answers when it refuses a command.
var errDaemon = errors.New("the daemon refuses")

// askTimeout bounds one command. A daemon answers between two turns of its loop, and a turn may take seconds.
const askTimeout = 10 * time.Second

// ask sends a command to a daemon's control socket and returns its answer: what ovs-appctl(8) does, without another process. (The
// protocol is JSON-RPC 1.0, RFC 7047 section 4, over a unix socket: lib/unixctl.c.)
func ask(ctx context.Context, socket, command string, arguments ...string) (string, error) {
	answer, err := call[string](ctx, socket, command, append([]string{}, arguments...))
	return strings.TrimSpace(answer), err
}

// call makes one call of JSON-RPC and ends the connection.
func call[A any](ctx context.Context, socket, method string, params []string) (answer A, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return answer, fmt.Errorf("reach %s: %w", socket, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := map[string]any{"id": 0, "method": method, "params": params}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return answer, fmt.Errorf("ask %s for %s: %w", socket, method, err)
	}
	var reply struct {
		Result *A
		Error  any
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return answer, fmt.Errorf("ask %s for %s: %w", socket, method, err)
	}
	if reply.Error != nil || reply.Result == nil {
		return answer, fmt.Errorf("ask %s for %s: %w: %v", socket, method, errDaemon, reply.Error)
	}
	return *reply.Result, nil
}
