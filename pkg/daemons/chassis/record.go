package chassis

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

const (
	// RecordName is the ConfigMap that says where OVN's databases are, and recordKey its key of the southbound one.
	RecordName, recordKey = "atoll-ovn", "sb"
	// southboundPort is where the southbound database serves nodes, with role-based access.
	southboundPort = 6642
)

// place is where the southbound database is.
type place struct {
	// remote is its servers, in the form of ovn-remote (ovn-controller(8)): of whatever order the record is, the same.
	remote string
	// cluster is its id. held: it is not complete yet, and serves no nodes.
	cluster string
	held    bool
	// moved: this node's ovn-controller has just come to it, and begins with what another database said.
	moved bool
}

// change is what a record means to an ovn-controller that knows another one.
type change int

const (
	// stays: it is the same database, or nobody knows.
	stays change = iota
	// waits: it is another one, which does not serve yet.
	waits
	// moved: it is another one.
	moved
)

// change compares with what ovn-controller knows.
func (p place) change(known place) change {
	switch {
	case known.cluster == "" || p.cluster == known.cluster:
		return stays
	// Of a cluster that is given up, its members come before its id.
	case p.held || p.cluster == "":
		return waits
	default:
		return moved
	}
}

// southbound reads where the southbound database is. plaintext takes servers that are written as tcp:ADDRESS:PORT, too.
func southbound(record map[string]string, plaintext Plaintext) (place, error) {
	var read struct {
		ClusterID string
		Held      bool
		Members   []struct{ Node, Address string }
	}
	text, has := record[recordKey]
	if !has {
		return place{}, fmt.Errorf("read ConfigMap %s: it has no key %s: the southbound database has not been set up", RecordName, recordKey)
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return place{}, fmt.Errorf("read key %s of ConfigMap %s: %w", recordKey, RecordName, err)
	}
	var out []string
	for _, m := range read.Members {
		if server, plain := strings.CutPrefix(m.Address, "tcp:"); plain {
			if _, err := netip.ParseAddrPort(server); err != nil || plaintext != PlaintextForTests {
				return place{}, fmt.Errorf("read key %s of ConfigMap %s: member %s has the address %q: an IP address is wanted", recordKey, RecordName,
					m.Node, m.Address)
			}
			out = append(out, m.Address)
			continue
		}
		address, err := netip.ParseAddr(m.Address)
		if err != nil || address.Zone() != "" {
			return place{}, fmt.Errorf("read key %s of ConfigMap %s: member %s has the address %q: an IP address is wanted", recordKey, RecordName,
				m.Node, m.Address)
		}
		out = append(out, "ssl:"+netip.AddrPortFrom(address.Unmap(), southboundPort).String())
	}
	if len(out) == 0 {
		return place{}, fmt.Errorf("read key %s of ConfigMap %s: it names no member", recordKey, RecordName)
	}
	slices.Sort(out)
	return place{remote: strings.Join(slices.Compact(out), ","), cluster: read.ClusterID, held: read.Held}, nil
}

// Plaintext says whether databases may be reached without TLS.
type Plaintext bool

// PlaintextForTests lets tests use a southbound database that has no certificates. No manifest of ours sets it.
const PlaintextForTests Plaintext = true
