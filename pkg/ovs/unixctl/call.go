package unixctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// RefusedError is what a daemon says that does not do what it was told.
type RefusedError struct{ What string }

// Error implements error.
func (e *RefusedError) Error() string { return e.What }

// Call sends a daemon a command over a connection, and returns what it prints. Its error is a RefusedError where the daemon
// answers with one. The connection is of no use once ctx has ended.
func Call(ctx context.Context, conn net.Conn, command string, arguments ...string) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": 0, "method": command, "params": append([]string{}, arguments...)}); err !=
		nil {
		return "", fmt.Errorf("send %s: %w", command, err)
	}
	var reply struct{ Result, Error *string }
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return "", fmt.Errorf("read the answer to %s: %w", command, err)
	}
	switch {
	case reply.Error != nil:
		return "", &RefusedError{*reply.Error}
	case reply.Result == nil:
		return "", nil
	}
	return *reply.Result, nil
}
