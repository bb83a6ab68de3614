package sockets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// knock is how often the socket is tried while nobody listens.
const knock = 50 * time.Millisecond

// sizeOfFD is what a socket takes in a message.
const sizeOfFD = 4

// ErrAway: nobody opens sockets in portholes now.
var ErrAway = errors.New("nobody opens sockets in portholes")

// Opener gets into portholes.
type Opener interface {
	// Await returns when it can.
	Await(ctx context.Context) error
	// NameAddresses are those of porthole.NameAddresses.
	NameAddresses(ctx context.Context, id porthole.ID) ([]netip.Addr, error)
	// Open is dns.Open.
	Open(ctx context.Context, at dns.Place) ([]*os.File, error)
}

// Own is an Opener of a process that may enter portholes itself.
type Own struct{}

// Await returns at once.
func (Own) Await(context.Context) error { return nil }

// NameAddresses are what a porthole's loopback interface has.
func (Own) NameAddresses(_ context.Context, id porthole.ID) ([]netip.Addr, error) {
	return porthole.NameAddresses(id)
}

// Open opens sockets at a place.
func (Own) Open(ctx context.Context, at dns.Place) ([]*os.File, error) { return dns.Open(ctx, at) }

// Client is an Opener that asks the one behind a socket.
type Client struct{ Socket string }

// Await returns when somebody listens.
func (c Client) Await(ctx context.Context) error {
	for {
		conn, err := c.dial(ctx)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(knock):
		}
	}
}

// NameAddresses asks for the addresses of a porthole.
func (c Client) NameAddresses(ctx context.Context, id porthole.ID) ([]netip.Addr, error) {
	addresses, files, err := c.ask(ctx, request{Namespace: id.NetnsPath()})
	closeAll(files)
	return addresses, err
}

// Open asks for sockets at a place.
func (c Client) Open(ctx context.Context, at dns.Place) ([]*os.File, error) {
	r := request{Namespace: at.Namespace}
	for _, a := range at.Addresses {
		if a.Port() != Port {
			return nil, fmt.Errorf("open sockets at %s: only port %d is opened", a, Port)
		}
		r.Addresses = append(r.Addresses, a.Addr())
	}
	_, files, err := c.ask(ctx, r)
	return files, err
}

func (c Client) dial(ctx context.Context) (*net.UnixConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", c.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	return conn.(*net.UnixConn), nil
}

func (c Client) ask(ctx context.Context, r request) (_ []netip.Addr, files []*os.File, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, nil, fmt.Errorf("ask for sockets: %w", err)
	}
	if _, err := conn.Write(text); err != nil {
		return nil, nil, fmt.Errorf("ask for sockets: %w", err)
	}
	message, rights := make([]byte, maxReply), make([]byte, unix.CmsgSpace(2*maxAddresses*sizeOfFD))
	n, of, flags, _, err := conn.ReadMsgUnix(message, rights)
	if err != nil {
		return nil, nil, fmt.Errorf("ask for sockets: %w", err)
	}
	if files, err = received(rights[:of]); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	var out reply
	switch {
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return nil, files, errors.New("ask for sockets: the reply is too long")
	default:
		err = json.Unmarshal(message[:n], &out)
	}
	switch {
	case err != nil:
		return nil, files, fmt.Errorf("ask for sockets: %w", err)
	case out.Error != "":
		return nil, files, errors.New(out.Error)
	}
	return out.Addresses, files, nil
}

// received are the sockets that came with a message.
func received(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("take sockets: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("take sockets: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "socket in a porthole"))
		}
	}
	return files, nil
}
