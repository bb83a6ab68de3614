package central

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// controlPatience bounds a command: a server that compacts a large database answers late.
const controlPatience = 10 * time.Second

// ask sends a command to a daemon's control socket, as ovs-appctl(8) does: JSON-RPC 1.0.
func ask(ctx context.Context, socket, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, controlPatience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	defer conn.Close()
	if deadline, has := ctx.Deadline(); has {
		_ = conn.SetDeadline(deadline)
	}
	if args == nil {
		args = []string{}
	}
	request := map[string]any{"id": 0, "method": command, "params": args}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	var reply struct{ Result, Error *string }
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	if reply.Error != nil {
		return "", fmt.Errorf("ask %s: %s", command, strings.TrimSpace(*reply.Error))
	}
	if reply.Result == nil {
		return "", fmt.Errorf("ask %s: the answer is empty", command)
	}
	return *reply.Result, nil
}
