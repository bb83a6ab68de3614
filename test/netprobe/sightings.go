package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// maxSightings bounds what a server remembers; the oldest go first.
const maxSightings = 1 << 15

// sightings remembers the tokens that reached this pod. A token that comes again from the same address by
// the same protocol is the same sighting.
type sightings struct {
	mu    sync.Mutex
	known map[wire.Sighting]bool
	order []wire.Sighting
}

func newSightings() *sightings {
	return &sightings{known: map[wire.Sighting]bool{}}
}

func (s *sightings) add(sighting wire.Sighting) {
	if !wire.ValidToken(sighting.Token) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[sighting] {
		return
	}
	if len(s.order) == maxSightings {
		delete(s.known, s.order[0])
		s.order = s.order[1:]
	}
	s.known[sighting] = true
	s.order = append(s.order, sighting)
}

// list returns the sightings whose token starts with prefix, oldest first; never nil.
func (s *sightings) list(prefix string) []wire.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []wire.Sighting{}
	for _, sighting := range s.order {
		if strings.HasPrefix(sighting.Token, prefix) {
			found = append(found, sighting)
		}
	}
	return found
}

// serve hands the list to whoever connects to l, and returns when l is closed.
func (s *sightings) serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		// A reader that has gone away is its own loss.
		_ = json.NewEncoder(conn).Encode(s.list(""))
		_ = conn.Close()
	}
}

// runSeen prints what the server of this pod has seen.
func runSeen(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("seen", flag.ContinueOnError)
	prefix := flags.String("prefix", "", "only tokens that start with this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", wire.Socket)
	if err != nil {
		return fmt.Errorf("ask the server of this pod: %w", err)
	}
	defer conn.Close()
	var all []wire.Sighting
	if err := json.NewDecoder(conn).Decode(&all); err != nil {
		return fmt.Errorf("read the server's sightings: %w", err)
	}
	found := []wire.Sighting{}
	for _, sighting := range all {
		if strings.HasPrefix(sighting.Token, *prefix) {
			found = append(found, sighting)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
