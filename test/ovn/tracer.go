package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// Tracer is ovn-trace as a daemon. It knows the southbound database as it was when the tracer was started, and answers
// thousands of questions per second. (ovn-trace(8).)
type Tracer struct {
	conn    net.Conn
	answers *json.Decoder
	state   string
}

// traces is how many times one tracer can be asked for the state of a connection: it takes the answers from its command
// line, one after the other.
const traces = 4000

// Trace starts a tracer. Every time that a packet meets connection tracking, the tracker says state: "new", or
// "est,rpl" for an answer.
func (c *Central) Trace(ctx context.Context, state string) (*Tracer, error) {
	// A tracer that ends removes its socket, perhaps after the next one has made its own.
	c.tracers++
	return c.trace(ctx, c.SBAddress(), c.path(fmt.Sprintf("trace%d.ctl", c.tracers)), state)
}

// TraceAt is Central.Trace for a southbound database that somebody else runs. The tracer's socket, which is a path that nobody
// has used, has to be short enough for one; its programs are those below the prefix that ATOLL_OVN_PREFIX names.
func TraceAt(ctx context.Context, southbound, socket, state string) (*Tracer, error) {
	found, err := locate()
	if err != nil {
		return nil, err
	}
	return newCentral(found, "").trace(ctx, southbound, socket, state)
}

func (c *Central) trace(ctx context.Context, southbound, socket, state string) (*Tracer, error) {
	args := []string{"--db=" + southbound, "--detach", "--no-chdir", "--unixctl=" + socket, "-vconsole:off"}
	for range traces {
		args = append(args, "--ct="+state)
	}
	// Once the program returns its daemon listens.
	if _, err := c.ctl(ctx, "ovn-trace", args...); err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach ovn-trace: %w", err)
	}
	return &Tracer{conn: conn, answers: json.NewDecoder(conn), state: state}, nil
}

// Ask traces a microflow (ovn-trace(8)) and returns what became of the packet: the actions, outputs among them, that it
// came to.
func (t *Tracer) Ask(microflow string) (string, error) {
	out, err := t.call("trace", "--minimal", microflow)
	if err != nil {
		return "", fmt.Errorf("trace %s: %w", microflow, err)
	}
	// Without an answer of ours the tracer has one of its own.
	if t.state == "new" && strings.Contains(out, "ct_state=est") {
		return "", fmt.Errorf("trace %s: the tracer has answered %d questions and needs to be started anew", microflow, traces)
	}
	return out, nil
}

// Detail traces a microflow for a person to read.
func (t *Tracer) Detail(microflow string) (string, error) {
	return t.call("trace", "--detailed", microflow)
}

// Stop ends the tracer. One that is not stopped ends with the southbound database.
func (t *Tracer) Stop() {
	_, _ = t.call("exit")
	_ = t.conn.Close()
}

// call is a request of JSON-RPC 1.0, as ovs-appctl makes them.
func (t *Tracer) call(method string, params ...string) (string, error) {
	if err := t.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	request := map[string]any{"id": 0, "method": method, "params": append([]string{}, params...)}
	if err := json.NewEncoder(t.conn).Encode(request); err != nil {
		return "", err
	}
	var reply struct {
		Result any `json:"result"`
		Error  any `json:"error"`
	}
	if err := t.answers.Decode(&reply); err != nil {
		return "", err
	}
	if reply.Error != nil {
		return "", fmt.Errorf("ovn-trace: %v", reply.Error)
	}
	text, _ := reply.Result.(string)
	return text, nil
}
