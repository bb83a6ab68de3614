package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

const (
	// patience is how long the plugin waits for the agent's socket, so that a restart of the agent is not
	// seen by pods, and a node does not turn NotReady for it.
	patience = 10 * time.Second
	// addPatience and delPatience are those of ADD and DEL. When an ADD has failed, the runtime asks for a DEL before it tells
	// anybody: together they are less than ten seconds.
	addPatience = 5 * time.Second
	delPatience = 3 * time.Second
	// knock is how often it tries meanwhile.
	knock = 50 * time.Millisecond
	// requestTimeout and addTimeout end a request whatever happens. They are longer than the agent's own deadlines, so that the
	// agent's answer says what it waited for, and shorter than kubelet's (2 minutes, and 4 for a new sandbox, unless it is told
	// otherwise), so that this is what a pod's Events show.
	requestTimeout = 90 * time.Second
	addTimeout     = 220 * time.Second
)

// patienceFor is how long a command waits for the agent.
func patienceFor(command Command) time.Duration {
	switch command {
	case Add:
		return addPatience
	case Del:
		return delPatience
	}
	return patience
}

// client sends requests to the agent behind one socket.
type client struct {
	socket   string
	patience time.Duration
}

// call sends a request. It returns an awayError when no agent answers.
func (c client) call(ctx context.Context, request Request) (*current.Result, error) {
	timeout := requestTimeout
	if request.Command == Add {
		timeout = addTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	transport := &http.Transport{DialContext: c.dial, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(post)
	if err != nil {
		return nil, &awayError{socket: c.socket, cause: err}
	}
	defer answer.Body.Close()
	response := Response{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxRequest)).Decode(&response); err != nil {
		return nil, &awayError{socket: c.socket, cause: err}
	}
	if response.Error != nil {
		return nil, response.Error
	}
	return response.Result, nil
}

// dial connects to the agent's socket and waits for it a while when nobody listens.
func (c client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	giveUp := time.NewTimer(c.patience)
	defer giveUp.Stop()
	retry := time.NewTicker(knock)
	defer retry.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-giveUp.C:
			return nil, err
		case <-retry.C:
		}
	}
}

// awayError says that no agent answers.
type awayError struct {
	socket string
	cause  error
}

func (e *awayError) Error() string { return e.as(types.ErrTryAgainLater).Error() }

func (e *awayError) Unwrap() error { return e.cause }

// as is the error as the specification wants it, under a code that fits the command.
func (e *awayError) as(code uint) *types.Error {
	return types.NewError(code, "the atoll-agent of this node does not answer",
		fmt.Sprintf("socket %s: %v; is the atoll-agent running?", e.socket, e.cause))
}
