package probe

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serve runs a server on loopback until the test ends, and returns where.
func serve(t *testing.T, who Identity) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	port, ended := make(chan int, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, who, "127.0.0.1", 0, func(p int) { port <- p }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(<-port))
}

// TestAsk: a server answers both protocols with its identity. A port where nothing listens, or a server that gives no identity, is
// no answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	who := Identity{Namespace: "red", Name: "web", UID: "1"}
	server := serve(t, who)
	// A listener that accepts connections and gives no identity.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	go func() { // ends when mute is closed
		for {
			conn, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
			conn.Close()
		}
	}()
	const patience = 3 * time.Second
	const short = 300 * time.Millisecond
	questions := []Question{
		{Kind: HTTP, Target: server, Patience: patience},
		{Kind: UDP, Target: server, Patience: patience},
		{Kind: Connect, Target: server, Patience: patience},
		{Kind: HTTP, Target: "127.0.0.1:1", Patience: short},
		{Kind: UDP, Target: "127.0.0.1:1", Patience: short},
		{Kind: Connect, Target: "127.0.0.1:1", Patience: short},
		{Kind: HTTP, Target: mute.Addr().String(), Patience: short},
		{Kind: "telepathy", Target: server, Patience: short},
		{Kind: API, Target: server, Patience: short},
	}
	answers := Ask(t.Context(), questions)
	for i, a := range answers {
		answered := i < 3
		if a.Answered != answered || a.Took <= 0 || (a.Error == "") != answered {
			t.Errorf("%+v: %+v, want answered %v", questions[i], a, answered)
		}
	}
	for _, a := range answers[:2] {
		if a.Answerer != who {
			t.Errorf("answerer %+v, want %+v", a.Answerer, who)
		}
	}
	if got := answers[2].Addresses; len(got) != 1 || got[0] != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("a connection led to %v", got)
	}
	for _, a := range answers[3:6] {
		if !strings.Contains(a.Error, "refused") {
			t.Errorf("error %q, want refused", a.Error)
		}
	}
}

// TestNames: a name has to stand for just what is asked.
func TestNames(t *testing.T) {
	t.Parallel()
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	for name, test := range map[string]struct {
		target    string
		addresses []netip.Addr
		want      bool
	}{
		"as it should": {"127.0.0.1", loopback, true},
		"anything":     {"127.0.0.1", nil, true},
		"another":      {"127.0.0.2", loopback, false},
		"one too few":  {"127.0.0.1", append(loopback, netip.MustParseAddr("127.0.0.3")), false},
	} {
		a := Ask(t.Context(), []Question{{Kind: Name, Target: test.target, Addresses: test.addresses, Patience: 300 * time.Millisecond}})[0]
		if a.Answered != test.want || len(a.Addresses) != 1 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestServeWithoutIdentity: a server that cannot say who it is proves nothing, and does not start.
func TestServeWithoutIdentity(t *testing.T) {
	t.Parallel()
	if err := Serve(t.Context(), Identity{Name: "web"}, "127.0.0.1", 0, nil); err == nil {
		t.Error("it serves")
	}
}
