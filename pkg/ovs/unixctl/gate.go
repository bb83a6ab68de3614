package unixctl

import (
	"context"
	"fmt"
	"net"

	"github.com/atoll-net/atoll/pkg/process/gate"
)

// Gate lets commands through to a daemon as far as they may be sent.
type Gate struct {
	Daemon string
	// Writes: all commands are let through.
	Writes bool
	// Hint says how to get a connection that writes; it is part of a refusal.
	Hint string
}

// Join has a client send commands to the daemon.
func (g Gate) Join(ctx context.Context, client, server net.Conn, b gate.Bounds) (refused int, why error) {
	return gate.Join(ctx, client, server, gate.Messages(g.judge), &gate.JSON{}, b)
}

// judge gives the command to send on, or the answer to give in its place.
func (g Gate) judge(in gate.Message) (on, answer gate.Message, err error) {
	command, params, err := in.Request()
	if err != nil {
		return nil, nil, err
	}
	arguments := make([]string, len(params))
	for i, p := range params {
		text, isText := p.(string)
		if !isText {
			return nil, nil, gate.ErrNoMessage
		}
		arguments[i] = text
	}
	if !g.Writes && !Reads(g.Daemon, command, arguments) {
		why := fmt.Sprintf("%s: this connection only reads, and sends %s no command that may change something. %s", gate.Printable(command),
			g.Daemon, g.Hint)
		return nil, gate.Message{"id": in["id"], "result": nil, "error": why}, nil
	}
	return gate.Message{"id": in["id"], "method": command, "params": params}, nil, nil
}
