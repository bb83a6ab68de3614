package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// knock is how often the socket is tried while nobody listens.
const knock = 50 * time.Millisecond

// briefly is how long those wait who do not need the program.
const briefly = time.Second

// Client calls the DNS program of the node.
type Client struct {
	socket        string
	patient, once *http.Client
}

// NewClient calls the program behind a socket. Nobody needs to listen there yet.
func NewClient(socket string) *Client {
	c := &Client{socket: socket}
	// Each request has a connection of its own: a successor may have taken over the socket since the last.
	c.patient = &http.Client{Transport: &http.Transport{DialContext: c.wait, DisableKeepAlives: true}}
	c.once = &http.Client{Transport: &http.Transport{DialContext: c.dial, DisableKeepAlives: true}, Timeout: briefly}
	return c
}

// Serve has pods answered in a porthole, and returns when they are. It waits for a program that is not there as long as ctx
// lets it.
func (c *Client) Serve(ctx context.Context, porthole string) error {
	for {
		err := c.do(ctx, c.patient, http.MethodPut, "/portholes/"+porthole)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// It ended in the midst of the request, or could not; its successor may.
		select {
		case <-ctx.Done():
			return err
		case <-time.After(knock):
		}
	}
}

// Leave has the program let go of a porthole. One that is not there holds nothing.
func (c *Client) Leave(ctx context.Context, porthole string) error {
	return c.do(ctx, c.once, http.MethodDelete, "/portholes/"+porthole)
}

// Look has the program look at all portholes.
func (c *Client) Look(ctx context.Context) error { return c.do(ctx, c.once, http.MethodPost, "/look") }

// Ready reports why the program cannot serve; nil when it can.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, c.once, http.MethodGet, "/readyz")
}

func (c *Client) do(ctx context.Context, by *http.Client, method, path string) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://atoll-dns"+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	answer, err := by.Do(request)
	if err != nil {
		return fmt.Errorf("the atoll-dns of this node does not answer: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNoContent {
		return nil
	}
	const longest = 1 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, longest))
	return errors.Join(fmt.Errorf("atoll-dns: %s", strings.TrimSpace(string(text))), err)
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
}

// wait dials until somebody listens.
func (c *Client) wait(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		conn, err := c.dial(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(knock):
		}
	}
}
