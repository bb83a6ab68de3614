package central

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// RecordName is the ConfigMap that holds the Record.
const RecordName = "atoll-ovn"

// Kind is one of OVN's two central databases. Its text is the record's key.
type Kind string

const (
	// Northbound says what is wanted (ovn-nb(5)).
	Northbound Kind = "nb"
	// Southbound says what is done on nodes (ovn-sb(5)).
	Southbound Kind = "sb"
)

// FullPort is where the southbound database is served with full rights, to clients that the central CA has signed.
const FullPort = 16642

// ParseKind reads nb or sb.
func ParseKind(text string) (Kind, error) {
	if k := Kind(text); k == Northbound || k == Southbound {
		return k, nil
	}
	return "", fmt.Errorf("read database %q: it is nb or sb", text)
}

// Schema is the database's name (ovsdb(7)).
func (k Kind) Schema() string {
	if k == Northbound {
		return "OVN_Northbound"
	}
	return "OVN_Southbound"
}

// ClientPort is where clients are served: all rights on the northbound database, those of a node on the southbound one.
func (k Kind) ClientPort() uint16 {
	if k == Northbound {
		return 6641
	}
	return 6642
}

// Record says which servers the two clusters have. Nodes and clients learn from it where the databases are.
type Record struct {
	Databases map[Kind]Database
}

// Database is a raft cluster.
type Database struct {
	// ClusterID is empty until a member has made the cluster.
	ClusterID string `json:"clusterID,omitempty"`
	// Bootstrap is the node that makes the cluster, or made it.
	Bootstrap string   `json:"bootstrap,omitempty"`
	Members   []Member `json:"members,omitempty"`
	// Before are the ids of clusters that were given up (Rebuild), the last one last. Their files are moved aside where they are found.
	Before []string `json:"before,omitempty"`
	// Held: a southbound database that is not complete yet serves no nodes, so that these keep the flows that they have.
	Held bool `json:"held,omitempty"`
}

// Member is a node's place in a cluster.
type Member struct {
	Node    string     `json:"node"`
	Address netip.Addr `json:"address"`
	// ServerID is empty until the node has made a file to join with.
	ServerID string `json:"serverID,omitempty"`
	// Raft is how the others reach this server.
	Raft Raft `json:"raft,omitempty"`
	// Lost: the node has lost the file of this server, which the others are to remove from the cluster.
	Lost bool `json:"lost,omitempty"`
}

// Remote is an address in the form of ovsdb(7), over TLS.
func Remote(a netip.Addr, port uint16) string { return "ssl:" + netip.AddrPortFrom(a, port).String() }

// Remotes are the addresses of all members at a port, joined by commas: what OVN's programs take. Empty if there is none.
func (d Database) Remotes(port uint16) string {
	var out []string
	for _, m := range d.Members {
		out = append(out, Remote(m.Address, port))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// Addresses are those of all members, sorted.
func (d Database) Addresses() []netip.Addr {
	var out []netip.Addr
	for _, m := range d.Members {
		out = append(out, m.Address)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// Member is a node's, if it has one.
func (d Database) Member(node string) (Member, bool) {
	i := slices.IndexFunc(d.Members, func(m Member) bool { return m.Node == node })
	if i < 0 {
		return Member{}, false
	}
	return d.Members[i], true
}

// with is the same with a member added, or in the place of the one its node has.
func (d Database) with(m Member) Database {
	members := slices.DeleteFunc(slices.Clone(d.Members), func(o Member) bool { return o.Node == m.Node })
	members = append(members, m)
	d.Members = members
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	return d
}

func (d Database) without(node string) Database {
	d.Members = slices.DeleteFunc(slices.Clone(d.Members), func(o Member) bool { return o.Node == node })
	return d
}

// Lost reports whether every server that the cluster had has lost its file. It is false for one that has not begun.
func (d Database) Lost() bool {
	lost := false
	for _, m := range d.Members {
		if m.ServerID == "" {
			continue
		}
		if !m.Lost {
			return false
		}
		lost = true
	}
	return lost
}

// Gone reports whether nobody has ever made the cluster, or somebody has given it up.
func (d Database) Gone() bool { return d.ClusterID == "" }

func (d Database) equal(o Database) bool {
	return d.ClusterID == o.ClusterID && d.Bootstrap == o.Bootstrap && d.Held == o.Held && slices.Equal(d.Members, o.Members) &&
		slices.Equal(d.Before, o.Before)
}

// ParseDatabase reads a key of the record. Empty text is a database that nobody has begun.
func ParseDatabase(text string) (Database, error) {
	var d Database
	if text == "" {
		return d, nil
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Database{}, fmt.Errorf("read record: %w", err)
	}
	if err := d.validate(); err != nil {
		return Database{}, fmt.Errorf("read record: %w", err)
	}
	return d, nil
}

func (d Database) validate() error {
	if d.ClusterID != "" && uuid.Validate(d.ClusterID) != nil {
		return fmt.Errorf("clusterID %q is no UUID", d.ClusterID)
	}
	for _, id := range d.Before {
		if uuid.Validate(id) != nil || id == d.ClusterID {
			return fmt.Errorf("%q is no id of a cluster that was given up", id)
		}
	}
	nodes, addresses, servers := map[string]bool{}, map[netip.Addr]bool{}, map[string]bool{}
	for _, m := range d.Members {
		switch {
		case m.Node == "":
			return fmt.Errorf("a member has no node")
		case nodes[m.Node]:
			return fmt.Errorf("node %s is a member twice", m.Node)
		case !m.Address.IsValid() || m.Address.Zone() != "":
			return fmt.Errorf("member %s has no IP address", m.Node)
		case addresses[m.Address]:
			return fmt.Errorf("two members have the address %s", m.Address)
		case m.Raft != "" && m.Raft != Relayed && m.Raft != Direct:
			return fmt.Errorf("member %s is reached %q: it is %s or %s", m.Node, m.Raft, Relayed, Direct)
		case m.ServerID != "" && uuid.Validate(m.ServerID) != nil:
			return fmt.Errorf("member %s has the server id %q, which is no UUID", m.Node, m.ServerID)
		case m.ServerID != "" && servers[m.ServerID]:
			return fmt.Errorf("two members have the server id %s", m.ServerID)
		}
		nodes[m.Node], addresses[m.Address], servers[m.ServerID] = true, true, true
	}
	return nil
}
