package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/node/ping"
)

// Client asks the agent of a node.
type Client struct {
	Node string
	// Addresses are the node's; the first that answers is asked.
	Addresses []netip.Addr
	// Port is where the agent listens; 0 is the constant Port.
	Port uint16
	// TLS is by whom the agent is known at an address, and by what we are.
	TLS func(netip.Addr) *tls.Config
	// patience is how long an agent may say nothing while it tells of flows; silence if it is 0.
	patience time.Duration
}

// Ping makes the node's agent send packets from a pod, and calls each for every packet. Its error is an UnreachableError, a
// RefusedError, or that the answer is incomplete.
func (c Client) Ping(ctx context.Context, q Question, each func(ping.Reply) error) error {
	q.User = bounded(q.User)
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	body, err := c.ask(ctx, pathPing, q)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return c.read(body, q, each)
}

// ask posts a question, and is the body of its answer. Its error is an UnreachableError or a RefusedError.
func (c Client) ask(ctx context.Context, path string, q asked) (io.ReadCloser, error) {
	if err := q.Check(); err != nil {
		return nil, &RefusedError{What: err.Error()}
	}
	answer, err := c.send(ctx, path, q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer func() { _ = answer.Body.Close() }()
		return nil, refusal(c.Node, answer)
	}
	return answer.Body, nil
}

// send posts a question. Its error is an UnreachableError where nobody takes it.
func (c Client) send(ctx context.Context, path string, q any) (*http.Response, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("write a question: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://agent"+path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	transport := &http.Transport{
		DialTLSContext: c.dial, DisableKeepAlives: true, ResponseHeaderTimeout: answerTime, MaxResponseHeaderBytes: maxQuestion,
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, &UnreachableError{c.Node, err}
	}
	return answer, nil
}

// bounded is a user's name, which may have any length, and is for the log.
func bounded(user string) string {
	if len(user) > maxUser {
		return user[:maxUser]
	}
	return user
}

// refusal is why an agent does not answer.
func refusal(node string, answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxLine))
	what := strings.TrimSpace(string(text))
	if answer.StatusCode == http.StatusNotFound {
		what = "it does not know the question: it is older than atoll-inspect"
	}
	temporary := answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable
	return &RefusedError{What: fmt.Sprintf("node %s: %s", node, what), Temporary: temporary}
}

// read reads an answer: no more than was asked for, and nothing about others.
func (c Client) read(body io.Reader, q Question, each func(ping.Reply) error) error {
	asked := map[netip.Addr]bool{}
	for _, a := range q.Ping.Targets {
		asked[a] = true
	}
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, maxLine), maxLine)
	for left := q.Ping.Count*len(asked) + 1; scanner.Scan() && left > 0; left-- {
		var line Line
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
		}
		switch {
		case line.End:
			return nil
		case line.Reply == nil:
			return &RefusedError{What: fmt.Sprintf("node %s: %s", c.Node, line.Error)}
		case !asked[line.Reply.Target]:
			return fmt.Errorf("read the answer of node %s: it is about %s, which nobody has asked for", c.Node, line.Reply.Target)
		}
		if err := each(*line.Reply); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the answer of node %s: %w", c.Node, err)
	}
	return fmt.Errorf("read the answer of node %s: it is not whole", c.Node)
}

// dial connects to the first address that is the agent's.
func (c Client) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	problems := make([]error, 0, len(c.Addresses))
	port := c.Port
	if port == 0 {
		port = Port
	}
	for _, a := range c.Addresses {
		dialling, cancel := context.WithTimeout(ctx, dialTime)
		conn, err := (&tls.Dialer{Config: c.TLS(a)}).DialContext(dialling, network, hostPort(a, port))
		cancel()
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		return nil, errors.New("the Node has no address")
	}
	return nil, errors.Join(problems...)
}
