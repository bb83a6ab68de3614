package central

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status is what a server says of its cluster (cluster/status, ovsdb-server(1)).
type Status struct {
	// State is "cluster member" for one that has joined.
	State string
	// Role is leader, follower or candidate. Leader is "unknown" while there is no quorum.
	Role, Leader  string
	ElectionTimer time.Duration
	// LogEnd is the index after the last entry of this server's log, and Uncommitted how many of its entries a majority is not known to have.
	LogEnd, Uncommitted uint64
	// Servers are all that the cluster has, this one too. A leader leaves one out as soon as it proposes to remove it.
	Servers []Server
}

// Server is one of a cluster, as another knows it.
type Server struct {
	// Short is the first four hexadecimal digits of its id.
	Short   string
	Address string
	// Self: it is the server that answers. Heard is how long ago a leader last heard from another server, or math.MaxInt64 if it never did.
	Self  bool
	Heard time.Duration
}

var (
	serverLine = regexp.MustCompile(`^\s+\S+ \(([0-9a-f]{4}) at ([^)]+)\)( \(self\))?`)
	heard      = regexp.MustCompile(` last msg (\d+) ms ago`)
)

// ParseStatus reads the answer to cluster/status.
func ParseStatus(text string) (Status, error) {
	var s Status
	listing := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if listing {
			if m := serverLine.FindStringSubmatch(line); m != nil {
				server := Server{Short: m[1], Address: m[2], Self: m[3] != "", Heard: math.MaxInt64}
				if h := heard.FindStringSubmatch(line); h != nil {
					if ms, err := strconv.ParseInt(h[1], 10, 32); err == nil {
						server.Heard = time.Duration(ms) * time.Millisecond
					}
				}
				s.Servers = append(s.Servers, server)
			}
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Status":
			s.State = value
		case "Role":
			s.Role = value
		case "Leader":
			s.Leader = value
		case "Election timer":
			now, _, _ := strings.Cut(value, " ") // "1000 (changing to 2000)"
			ms, err := strconv.Atoi(now)
			if err != nil {
				return Status{}, fmt.Errorf("read cluster/status: election timer %q", value)
			}
			s.ElectionTimer = time.Duration(ms) * time.Millisecond
		case "Log":
			if _, err := fmt.Sscanf(value, "[%d, %d]", new(uint64), &s.LogEnd); err != nil {
				return Status{}, fmt.Errorf("read cluster/status: log %q", value)
			}
		case "Entries not yet committed":
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return Status{}, fmt.Errorf("read cluster/status: %q entries not yet committed", value)
			}
			s.Uncommitted = n
		case "Servers":
			listing = true
		}
	}
	if s.State == "" || s.Role == "" {
		return Status{}, errors.New("read cluster/status: it says neither status nor role")
	}
	return s, nil
}

// Leads reports whether this server leads its cluster.
func (s Status) Leads() bool { return s.State == joined && s.Role == "leader" }

// Ready says what is missing until clients are served; nil if nothing is.
func (s Status) Ready() error {
	if s.State != joined {
		return fmt.Errorf("not a member: %s", s.State)
	}
	if s.Leader == "" || s.Leader == "unknown" {
		return errors.New("no leader: this member is not connected to a quorum")
	}
	return nil
}

const joined = "cluster member"

// committed reports whether a majority has all entries before an index of the log.
func (s Status) committed(end uint64) bool { return s.LogEnd >= end+s.Uncommitted }

// expelled reports whether the cluster has removed this server.
func (s Status) expelled() bool {
	return s.State == "left cluster"
}

// has reports whether the cluster has a member's server.
func (s Status) has(kind Kind, m Member) bool {
	return slices.ContainsFunc(s.Servers, func(server Server) bool {
		return strings.HasPrefix(m.ServerID, server.Short) && server.Address == m.raftAddress(kind)
	})
}

// hearsAll reports whether a leader has heard all others lately.
func (s Status) hearsAll() bool {
	return !slices.ContainsFunc(s.Servers, func(server Server) bool { return !server.Self && server.Heard > s.ElectionTimer })
}

// Ready asks the server of a node whether it serves clients. run is its directory of sockets.
func Ready(ctx context.Context, run string, kind Kind) error {
	s, err := status(ctx, run, kind)
	if err != nil {
		return err
	}
	return s.Ready()
}

func status(ctx context.Context, run string, kind Kind) (Status, error) {
	text, err := ask(ctx, controlSocket(run, kind), "cluster/status", kind.Schema())
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(text)
}
