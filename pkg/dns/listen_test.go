package dns

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TestLeft: what is in a socket when its time is over is read all the same, and a socket with nothing in it ends.
func TestLeft(t *testing.T) {
	over := time.Unix(1, 0)
	loopback := net.IPv4(127, 0, 0, 1)
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if err := errors.Join(listener.SetDeadline(over), packets.SetReadDeadline(over)); err != nil {
		t.Fatal(err)
	}
	if left(listener, listener.SetDeadline) || left(packets, packets.SetReadDeadline) {
		t.Fatal("something is left where nothing came")
	}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sender, err := net.Dial("udp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	if _, err := sender.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	// The control: without it what came is not read.
	if _, err := listener.AcceptTCP(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after its time it is accepted: %v", err)
	}
	if !left(listener, listener.SetDeadline) || !left(packets, packets.SetReadDeadline) {
		t.Fatal("what came is not left")
	}
	conn, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := packets.ReadFromUDP(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	// Answers may be written for as long as they take.
	if _, err := packets.WriteTo([]byte("!"), sender.LocalAddr()); err != nil {
		t.Fatal(err)
	}
}
