package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// forgery is an ICMP echo request written by hand, from the Ethernet header up.
type forgery struct {
	SourceMAC, TargetMAC net.HardwareAddr
	Source, Target       netip.Addr
	Token                string
}

// runForge sends a forgery through an interface of this pod, past the kernel's own checks.
func runForge(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("forge", flag.ContinueOnError)
	device := flags.String("device", "eth0", "interface to send through")
	sourceMAC := flags.String("source-mac", "", "Ethernet source (default: the interface's)")
	targetMAC := flags.String("target-mac", "", "Ethernet destination")
	source := flags.String("source", "", "IPv4 source")
	target := flags.String("target", "", "IPv4 destination")
	token := flags.String("token", "", "token of the echo request")
	count := flags.Int("count", 3, "how often to send it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	link, err := net.InterfaceByName(*device)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", *device, err)
	}
	f := forgery{SourceMAC: link.HardwareAddr, Token: *token}
	if *sourceMAC != "" {
		if f.SourceMAC, err = net.ParseMAC(*sourceMAC); err != nil {
			return err
		}
	}
	if f.TargetMAC, err = net.ParseMAC(*targetMAC); err != nil {
		return err
	}
	if f.Source, err = netip.ParseAddr(*source); err != nil {
		return err
	}
	if f.Target, err = netip.ParseAddr(*target); err != nil {
		return err
	}
	frame, err := f.frame()
	if err != nil {
		return err
	}
	return sendFrames(link.Index, frame, *count)
}

// frame is the forgery as it goes onto the wire.
func (f forgery) frame() ([]byte, error) {
	if !f.Source.Is4() || !f.Target.Is4() {
		return nil, errors.New("forge wants IPv4 addresses")
	}
	if !wire.ValidToken(f.Token) {
		return nil, fmt.Errorf("token %q cannot be recorded", f.Token)
	}
	echo, err := (&icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 1, Seq: 1, Data: []byte(f.Token)}}).Marshal(nil)
	if err != nil {
		return nil, fmt.Errorf("encode an echo request: %w", err)
	}
	const headerLen = 20
	header := make([]byte, headerLen)
	header[0] = 4<<4 | headerLen/4
	binary.BigEndian.PutUint16(header[2:], uint16(headerLen+len(echo)))
	header[8] = 64
	header[9] = protocolICMP
	copy(header[12:16], f.Source.AsSlice())
	copy(header[16:20], f.Target.AsSlice())
	binary.BigEndian.PutUint16(header[10:], checksum(header))

	frame := append([]byte{}, f.TargetMAC...)
	frame = append(frame, f.SourceMAC...)
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IP)
	frame = append(frame, header...)
	return append(frame, echo...), nil
}

// checksum is the Internet checksum (RFC 1071) of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// sendFrames sends frame count times through the interface with that index.
func sendFrames(index int, frame []byte, count int) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: index, Halen: 6}
	copy(to.Addr[:], frame[:6])
	for range count {
		if err := unix.Sendto(fd, frame, 0, to); err != nil {
			return fmt.Errorf("send a frame: %w", err)
		}
	}
	return nil
}
