package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// clientPatience is how long a client may take to ask.
const clientPatience = 5 * time.Second

// Serve answers with its identity by HTTP and UDP, at a port of a host, until ctx ends. An empty host means all hosts. Port 0
// means any free port. ready, if not nil, is called with the port once both listen.
func Serve(ctx context.Context, who Identity, host string, port int, ready func(port int)) error {
	if who.UID == "" {
		return errors.New("an answer without identity proves nothing: POD_UID is empty")
	}
	said, err := json.Marshal(who)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	tcp, err := listen.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer tcp.Close()
	if bound, ok := tcp.Addr().(*net.TCPAddr); ok {
		port = bound.Port
	}
	udp, err := listen.ListenPacket(ctx, "udp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer udp.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET "+WhoPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(said)
	})
	web := &http.Server{Handler: mux, ReadHeaderTimeout: clientPatience, IdleTimeout: time.Minute}
	failed := make(chan error, 2)
	var running sync.WaitGroup
	running.Go(func() { failed <- web.Serve(tcp) }) // ends with web.Close
	running.Go(func() { failed <- answer(udp, said) })
	if ready != nil {
		ready(port)
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	_ = web.Close()
	_ = udp.Close()
	running.Wait()
	return err
}

// answer answers each datagram until the connection is closed.
func answer(udp net.PacketConn, said []byte) error {
	buf := make([]byte, 16)
	for {
		_, from, err := udp.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		// A client that cannot be answered finds out by itself.
		_, _ = udp.WriteTo(said, from)
	}
}
