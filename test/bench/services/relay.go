package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// relay stands between the controller and the northbound database and counts what the controller writes.
type relay struct {
	listener net.Listener
	to       string
	links    sync.WaitGroup

	bytes, transactions atomic.Int64
}

// written is what the controller sent in transactions.
type written struct {
	Bytes        int64 `json:"bytes"`
	Transactions int64 `json:"transactions"`
}

func (w written) since(before written) written {
	return written{w.Bytes - before.Bytes, w.Transactions - before.Transactions}
}

// startRelay listens on a socket at path for the database at address, unix:PATH. Close ends it.
func startRelay(ctx context.Context, path, address string) (*relay, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the controller: %w", err)
	}
	r := &relay{listener: l, to: strings.TrimPrefix(address, "unix:")}
	r.links.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.links.Go(func() { r.link(ctx, conn) })
		}
	})
	return r, nil
}

// Close ends the relay when its connections have ended: stop the controller first.
func (r *relay) Close() error {
	err := r.listener.Close()
	r.links.Wait()
	return err
}

func (r *relay) address() string { return "unix:" + r.listener.Addr().String() }

func (r *relay) sum() written { return written{r.bytes.Load(), r.transactions.Load()} }

// link passes one connection on in both directions until either side ends it.
func (r *relay) link(ctx context.Context, controller net.Conn) {
	defer controller.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "unix", r.to)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = controller.Close(), server.Close() })
	defer stop()
	read, write := io.Pipe()
	var counting sync.WaitGroup
	counting.Go(func() { r.count(read) })
	counting.Go(func() {
		_, _ = io.Copy(controller, server)
		_ = controller.Close()
	})
	_, err = io.Copy(io.MultiWriter(server, write), controller)
	_ = server.Close()
	_ = write.CloseWithError(errors.Join(err, io.EOF))
	counting.Wait()
}

// count adds up the transactions in a stream of JSON-RPC messages. (RFC 7047, section 4.1.3.)
func (r *relay) count(stream io.ReadCloser) {
	// Whoever writes into the pipe must not wait for us after an error.
	defer stream.Close()
	messages := json.NewDecoder(stream)
	for {
		var message struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		before := messages.InputOffset()
		if messages.Decode(&message) != nil {
			return
		}
		if message.Method == "transact" {
			r.bytes.Add(messages.InputOffset() - before)
			r.transactions.Add(1)
		}
	}
}
