// Package relay carries the API server's connections into the cluster. The control plane of a sandbox is no node: it has
// no way to pods and Services of its own. A node has, as has every process on it.
//
// In flow requests of HTTP's CONNECT method on a unix socket, which is what the API server's egress selector speaks, and clients
// of a port that is forwarded; out flow TCP connections. Each node has a relay that connects from there. The control plane has
// one that connects by itself to nodes, and for the rest asks the relay of the first node that is on.
//
// What must stay true: a relay changes nothing of what it carries; and only root reaches its socket.
package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/process/pipe"
)

const (
	// dialLimit bounds the time until a connection is there.
	dialLimit = 20 * time.Second
	// askLimit bounds the time until a client has said where it wants to be connected to.
	askLimit = 10 * time.Second
)

// Dial makes a connection to a host and port.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Direct connects from where the relay is.
func Direct(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Through connects directly to addresses in near, and to all others by the first of the relays that is there.
func Through(near netip.Prefix, relays []string) Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if target, err := netip.ParseAddrPort(address); err == nil && near.Contains(target.Addr()) {
			return Direct(ctx, address)
		}
		var missing []error
		for _, socket := range relays {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err != nil {
				missing = append(missing, err)
				continue
			}
			if err := ask(ctx, conn, address); err != nil {
				conn.Close()
				return nil, fmt.Errorf("connect to %s by %s: %w", address, socket, err)
			}
			return conn, nil
		}
		return nil, fmt.Errorf("connect to %s: no node is on: %w", address, errors.Join(missing...))
	}
}

// ask has the relay at the other end connect to an address.
func ask(ctx context.Context, conn net.Conn, address string) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		return fmt.Errorf("ask relay: %w", err)
	}
	answer := bufio.NewReader(conn)
	response, err := http.ReadResponse(answer, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("hear relay: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("hear relay: %s", response.Status)
	}
	if answer.Buffered() > 0 {
		return errors.New("hear relay: the other end spoke first")
	}
	return nil
}

// Serve relays the connections of a unix socket until the context ends.
func Serve(ctx context.Context, socket string, dial Dial) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("protect socket: %w", err), listener.Close())
	}
	return serve(ctx, listener, func(client net.Conn) { serveClient(ctx, client, dial) })
}

// Forward connects each client of a listener to one address until the context ends. A client whose connection cannot be made is closed.
func Forward(ctx context.Context, listener net.Listener, address string, dial Dial) error {
	return serve(ctx, listener, func(client net.Conn) {
		dialing, cancel := context.WithTimeout(ctx, dialLimit)
		target, err := dial(dialing, address)
		cancel()
		if err != nil {
			client.Close()
			return
		}
		pipe.JoinHalves(ctx, client, target)
	})
}

// serve hands each client of a listener over until the context ends, and waits for all of them.
func serve(ctx context.Context, listener net.Listener, each func(net.Conn)) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		client, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", listener.Addr(), err)
		}
		clients.Go(func() { each(client) })
	}
}

// serveClient connects a client to the address for which it asks.
func serveClient(ctx context.Context, client net.Conn, dial Dial) {
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(askLimit))
	said := bufio.NewReader(client)
	request, err := http.ReadRequest(said)
	if err != nil {
		return // it went away, or speaks something else
	}
	if request.Method != http.MethodConnect {
		fmt.Fprint(client, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	dialing, cancel := context.WithTimeout(ctx, dialLimit)
	target, err := dial(dialing, request.RequestURI)
	cancel()
	_ = client.SetDeadline(time.Time{})
	if err != nil {
		fmt.Fprintf(client, "HTTP/1.1 502 %s\r\n\r\n", oneLine(err))
		return
	}
	defer target.Close()
	if _, err := fmt.Fprint(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	pipe.JoinHalves(ctx, pipe.Ahead{Conn: client, From: said}, target)
}

// oneLine makes an error fit for a status line.
func oneLine(err error) string {
	text := []byte(err.Error())
	for i, c := range text {
		if c < ' ' || c > '~' {
			text[i] = ' '
		}
	}
	return string(text)
}
