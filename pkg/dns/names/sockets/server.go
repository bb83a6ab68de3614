package sockets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// patience is how long one request may take; who asks nothing is hung up on.
const patience = 2 * time.Second

// Serve does what is asked at a socket until ctx ends, one request after the other.
func Serve(ctx context.Context, socket string, log *slog.Logger) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("listen for the DNS program: %w", err)
	}
	closing := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer closing()
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("close the socket to others: %w", err), listener.Close())
	}
	log.Info("sockets are opened in portholes", "for", socket)
	for {
		conn, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for the DNS program: %w", err)
		}
		if err := errors.Join(answer(ctx, conn), conn.Close()); err != nil {
			log.Warn("request was not answered", "error", err)
		}
	}
}

// answer reads a request, does it, and replies.
func answer(ctx context.Context, conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	message := make([]byte, maxRequest)
	n, _, flags, _, err := conn.ReadMsgUnix(message, nil)
	if errors.Is(err, io.EOF) {
		return nil // Somebody looked whether we are there.
	}
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if flags&unix.MSG_TRUNC != 0 {
		return errors.New("read request: it is too long")
	}
	var r request
	if err := json.Unmarshal(message[:n], &r); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	addresses, opened, err := do(ctx, r)
	defer closeAll(opened)
	out := reply{Addresses: addresses}
	if err != nil {
		out = reply{Error: err.Error()}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	var rights []byte
	if len(opened) > 0 {
		var fds []int
		for _, f := range opened {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(text, rights, nil); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return nil
}

// do opens what may be opened.
func do(ctx context.Context, r request) ([]netip.Addr, []*os.File, error) {
	id, is := porthole.At(r.Namespace)
	if !is {
		return nil, nil, fmt.Errorf("%q is no porthole of this node", r.Namespace)
	}
	addresses, err := porthole.NameAddresses(id)
	if err != nil {
		return nil, nil, err
	}
	if len(addresses) > maxAddresses {
		return nil, nil, fmt.Errorf("%s has %d addresses, more than %d", id.Name(), len(addresses), maxAddresses)
	}
	if len(r.Addresses) == 0 {
		return addresses, nil, nil
	}
	if !slices.Equal(r.Addresses, addresses) {
		return nil, nil, fmt.Errorf("the addresses of %s are %s", id.Name(), addresses)
	}
	opened, err := dns.Open(ctx, PlaceOf(id, addresses))
	return addresses, opened, err
}

// PlaceOf is where a porthole's pods ask.
func PlaceOf(id porthole.ID, addresses []netip.Addr) dns.Place {
	place := dns.Place{Namespace: id.NetnsPath()}
	for _, a := range addresses {
		place.Addresses = append(place.Addresses, netip.AddrPortFrom(a, Port))
	}
	return place
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
