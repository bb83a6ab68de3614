// Command agnhost stands before upstream's agnhost in the images of the tests where the kernel has no SCTP (CONFIG_IP_SCTP):
// then nothing can open a socket of it, and upstream's program ends with an error. This one speaks SCTP itself, over a raw
// socket, where upstream's would ask the kernel:
//
//	agnhost connect --protocol=sctp HOST:PORT   sets up an association and takes it down again
//	SERVE_SCTP_PORT_80=... agnhost porter       accepts associations at port 80
//
// In flow agnhost's own arguments, out the same words and exit status. Everything else is upstream's: it is called with the same
// arguments.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// upstream is where the image has the program itself.
const upstream = "/upstream/agnhost"

func main() {
	args := os.Args[1:]
	switch {
	case len(args) > 0 && args[0] == "connect":
		if c, ok := parseConnect(args[1:]); ok {
			os.Exit(connect(c))
		}
	case len(args) > 0 && args[0] == "porter":
		if ports, rest := sctpPorts(os.Environ()); len(ports) > 0 {
			slog.Error("porter ended", "error", porter(ports, rest, args))
			os.Exit(1)
		}
	}
	if err := syscall.Exec(upstream, os.Args, os.Environ()); err != nil {
		slog.Error("call upstream's agnhost", "error", err)
		os.Exit(1)
	}
}

// connection is what agnhost connect is asked for.
type connection struct {
	to      string
	timeout time.Duration
}

// parseConnect reads the arguments of agnhost connect; false when it is not to use SCTP.
func parseConnect(args []string) (c connection, ok bool) {
	c.timeout = time.Hour // none given
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--protocol":
			ok = value == "sctp"
		case "--timeout":
			if d, err := time.ParseDuration(value); err == nil {
				c.timeout = d
			}
		default:
			c.to = arg
		}
	}
	return c, ok
}

// connect prints the words that agnhost's callers look for, and returns the exit status.
func connect(c connection) int {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	to, err := resolve(ctx, c.to)
	if err != nil {
		fmt.Fprintf(os.Stderr, "DNS: %v\n", err)
		return 1
	}
	switch err := associate(ctx, to); {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(os.Stderr, "TIMEOUT")
	case err != nil:
		fmt.Fprintf(os.Stderr, "OTHER: %v\n", err)
	default:
		return 0
	}
	return 1
}

func resolve(ctx context.Context, text string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(port)), nil
}

// sctpPorts are the ports at which agnhost porter is to accept associations, and the environment without them.
func sctpPorts(environ []string) (ports []uint16, rest []string) {
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		number, found := strings.CutPrefix(name, "SERVE_SCTP_PORT_")
		port, err := strconv.ParseUint(number, 10, 16)
		if !found || err != nil {
			rest = append(rest, variable)
			continue
		}
		ports = append(ports, uint16(port))
	}
	return ports, rest
}

// porter serves by SCTP, and has upstream's program serve the rest.
func porter(ports []uint16, environ, args []string) error {
	failed := make(chan error)
	for _, family := range []string{"ip4", "ip6"} {
		go func() { failed <- serve(family, ports) }()
	}
	go func() {
		cmd := exec.Command(upstream, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = environ, os.Stdout, os.Stderr
		failed <- cmd.Run()
	}()
	return <-failed
}
