package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

const (
	// maxClients bounds the TCP clients that are served at once; more wait in the kernel's queue.
	maxClients = 256
	// clientPatience is how long a TCP client may take to say its token.
	clientPatience = 5 * time.Second
)

// server answers for one pod.
type server struct {
	identity wire.Identity
	seen     *sightings
	// deaf: no echo requests are recorded.
	deaf bool
	// http and grpc are the ports of the HTTP and the gRPC server; 0: none.
	http, grpc uint16
	// socket is where sightings are asked for.
	socket string
}

// runServe serves until ctx ends or one of the listeners fails.
func runServe(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	port := flags.Uint("port", wire.DefaultPort, "port for TCP and UDP")
	web := flags.Uint("http", wire.HTTPPort, "port for HTTP (0: none)")
	health := flags.Uint("grpc", wire.GRPCPort, "port for health checks by gRPC (0: none)")
	icmp := flags.Bool("icmp", true, "record echo requests, which takes CAP_NET_RAW")
	socket := flags.String("socket", wire.Socket,
		"local socket where sightings are asked for; of pods in one network namespace each needs its own")
	var address netip.Addr
	flags.TextVar(&address, "address", netip.Addr{}, "address for TCP and UDP (default: all)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := &server{
		identity: wire.Identity{
			Namespace: os.Getenv("POD_NAMESPACE"),
			Name:      os.Getenv("POD_NAME"),
			UID:       os.Getenv("POD_UID"),
			Node:      os.Getenv("NODE_NAME"),
		},
		seen: newSightings(),
	}
	s.deaf, s.http, s.grpc, s.socket = !*icmp, uint16(*web), uint16(*health), *socket
	if s.identity.UID == "" {
		return errors.New("POD_UID is empty: an answer without identity proves nothing")
	}
	return s.serve(ctx, netip.AddrPortFrom(address, uint16(*port)))
}

// serve opens all sockets, then starts one goroutine for each. They end when the sockets are closed, which
// happens when ctx ends or the first of them fails.
func (s *server) serve(ctx context.Context, at netip.AddrPort) error {
	local, err := net.Listen("unix", s.socket)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.socket, err)
	}
	defer local.Close()
	loops := []func() error{func() error { return s.seen.serve(local) }}
	closers := []io.Closer{local}
	if !s.deaf {
		echo4, err := net.ListenPacket("ip4:icmp", "0.0.0.0")
		if err != nil {
			return fmt.Errorf("open a raw socket for ICMP: %w", err)
		}
		defer echo4.Close()
		loops = append(loops, func() error { return s.watchEcho(echo4) })
		closers = append(closers, echo4)
		// A node without IPv6 has no such socket; its pods have no such addresses either.
		if echo6, err := net.ListenPacket("ip6:ipv6-icmp", "::"); err == nil {
			loops = append(loops, func() error { return s.watchEcho(echo6) })
			closers = append(closers, echo6)
		}
	}
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return fmt.Errorf("listen on TCP %s: %w", at, err)
	}
	loops = append(loops, func() error { return s.serveTCP(tcp) })
	closers = append(closers, tcp)
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		_ = tcp.Close()
		return fmt.Errorf("listen on UDP %s: %w", at, err)
	}
	loops = append(loops, func() error { return s.serveUDP(udp) })
	closers = append(closers, udp)

	if s.http != 0 {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), s.http)))
		if err != nil {
			return errors.Join(fmt.Errorf("listen on TCP port %d: %w", s.http, err), tcp.Close(), udp.Close())
		}
		web := s.httpServer()
		loops = append(loops, func() error { return web.Serve(listener) })
		closers = append(closers, graceful{web})
	}
	if s.grpc != 0 {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), s.grpc)))
		if err != nil {
			return errors.Join(fmt.Errorf("listen on TCP port %d: %w", s.grpc, err), tcp.Close(), udp.Close())
		}
		health := grpcServer()
		loops = append(loops, func() error { return health.Serve(listener) })
		closers = append(closers, stopper{health})
	}
	failed := make(chan error, len(loops))
	var running sync.WaitGroup
	for _, loop := range loops {
		running.Go(func() { failed <- loop() })
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	for _, c := range closers {
		_ = c.Close()
	}
	running.Wait()
	return err
}

// serveTCP answers each client's line with an Answer.
func (s *server) serveTCP(l net.Listener) error {
	slots := make(chan struct{}, maxClients)
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		slots <- struct{}{}
		clients.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(clientPatience))
			line, err := bufio.NewReader(io.LimitReader(conn, wire.MaxToken+1)).ReadString('\n')
			if err != nil {
				return
			}
			token := strings.TrimSuffix(line, "\n")
			s.seen.add(wire.Sighting{Token: token, Protocol: wire.TCP, From: addrOf(conn.RemoteAddr())})
			_ = json.NewEncoder(conn).Encode(wire.Answer{Token: token, Answerer: s.identity})
		})
	}
}

// serveUDP answers each packet with an Answer.
func (s *server) serveUDP(conn *net.UDPConn) error {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return fmt.Errorf("read from %s: %w", conn.LocalAddr(), err)
		}
		token := string(buf[:n])
		if !wire.ValidToken(token) {
			continue
		}
		s.seen.add(wire.Sighting{Token: token, Protocol: wire.UDP, From: from.Addr().Unmap()})
		answer, err := json.Marshal(wire.Answer{Token: token, Answerer: s.identity})
		if err != nil {
			return fmt.Errorf("encode an answer: %w", err)
		}
		// A client that cannot be answered finds out by itself.
		_, _ = conn.WriteToUDPAddrPort(answer, from)
	}
}

// addrOf is the address of a peer without its port.
func addrOf(a net.Addr) netip.Addr {
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	ip, err := netip.ParseAddr(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

// runReady asks the server of this pod for an answer, for as long as a start may take.
func runReady(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ready", flag.ContinueOnError)
	port := flags.Uint("port", wire.DefaultPort, "port of the server")
	patience := flags.Duration("for", time.Second, "how long to go on trying")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// The token has a character that no recorded token may have: it leaves no sighting.
	target := wire.Target{Address: netip.MustParseAddr("127.0.0.1"), Protocol: wire.TCP, Port: uint16(*port), Token: "ready?"}
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	result := probeTCP(ctx, target)
	if !result.Answered {
		return fmt.Errorf("no answer on port %d: %s", *port, result.Error)
	}
	return nil
}
