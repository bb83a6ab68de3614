package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// runSend sends what stdin has, a JSON list of byte strings: each as a frame through an interface of this pod, past the kernel's own
// checks, or as a datagram by an ordinary socket.
func runSend(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("send", flag.ContinueOnError)
	device := flags.String("device", "eth0", "interface to send frames through")
	udp := flags.String("udp", "", "address and port to which they go as datagrams instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var messages [][]byte
	if err := json.NewDecoder(os.Stdin).Decode(&messages); err != nil {
		return fmt.Errorf("read what to send: %w", err)
	}
	if *udp == "" {
		link, err := net.InterfaceByName(*device)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", *device, err)
		}
		for _, frame := range messages {
			if err := sendFrames(link.Index, frame, 1); err != nil {
				return err
			}
		}
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", *udp)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, message := range messages {
		// An error is what an earlier one brought back.
		_, _ = conn.Write(message)
	}
	return nil
}

// runSniff looks at the frames of an interface, from one that has the first text in it to one that then has the last, and prints which of
// the texts in stdin, a JSON list, frames between them had.
func runSniff(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("sniff", flag.ContinueOnError)
	device := flags.String("device", "eth0", "interface to look at")
	first := flags.String("first", "", "text of the frame from which on it looks")
	last := flags.String("last", "", "text of the frame with which it ends")
	patience := flags.Duration("for", 10*time.Second, "how long to wait for the last one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		return fmt.Errorf("read what to look for: %w", err)
	}
	link, err := net.InterfaceByName(*device)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", *device, err)
	}
	const everything = unix.ETH_P_ALL << 8 // in the network's order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, everything)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "packets")
	defer socket.Close()
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: link.Index}); err != nil {
		return fmt.Errorf("look at %s: %w", *device, err)
	}
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Now()) })()
	heard, err := listen(socket, []byte(*first), []byte(*last), texts)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(heard)
}

// listen returns the texts that frames had between the first and the last one; never nil.
func listen(frames io.Reader, first, last []byte, texts []string) ([]string, error) {
	frame := make([]byte, 1<<16)
	begun, there := false, map[string]bool{}
	for {
		n, err := frames.Read(frame)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("no frame with %q came after one with %q", last, first)
		case err != nil:
			return nil, fmt.Errorf("read a frame: %w", err)
		}
		begun = begun || bytes.Contains(frame[:n], first)
		if !begun {
			continue
		}
		for _, text := range texts {
			there[text] = there[text] || bytes.Contains(frame[:n], []byte(text))
		}
		if bytes.Contains(frame[:n], last) {
			break
		}
	}
	heard := []string{}
	for _, text := range texts {
		if there[text] {
			heard = append(heard, text)
		}
	}
	return heard, nil
}
