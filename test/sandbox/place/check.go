package place

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// checkEvery is the time between two tries of a readiness check.
const checkEvery = 50 * time.Millisecond

// probe evaluates a check once.
func (c Check) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	switch {
	case c.Socket != "":
		conn, err := new(net.Dialer).DialContext(ctx, "unix", c.Socket)
		if err != nil {
			return fmt.Errorf("reach socket: %w", err)
		}
		return conn.Close()
	case c.URL != "":
		return get(ctx, c.URL)
	}
	return nil
}

func get(ctx context.Context, url string) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("form request: %w", err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("ask health: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask health of %s: %s", url, response.Status)
	}
	return nil
}

// wait tries the check until it passes or the context ends, and tells each failure.
func (c Check) wait(ctx context.Context, failed func(error)) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		err := c.probe(ctx)
		if err == nil {
			return nil
		}
		failed(err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
