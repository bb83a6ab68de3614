package porthole

import (
	"errors"
	"net/netip"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A pod's connections are counted, and more than Cluster.MaxConnections are refused: the node's table of connections is for
// all Networks, and a porthole's for all pods of its own. What is refused is judged before the connection is put into any table, and its
// sender is told.
//
// The kernel counts those of an address that its tables have at the moment. One that has ended no longer counts.

const (
	// setCrowd has the addresses that have connections, each with their number.
	setCrowd = "connections"
	// crowdSize bounds the set: no node has more pods in a Network. One that finds no room is not let through.
	crowdSize = 1 << 16
	// setCrowded has the addresses of which connections were refused, for so long.
	setCrowded  = "crowded"
	crowdedTime = time.Minute
)

// beforeJudgement is before our own chains, and those of others, judge what passes or is received.
func beforeJudgement(h hook) hook {
	h.priority--
	return h
}

// writeCrowds refuses pods what is too much, whose packets come in by an interface.
func writeCrowds(t *transaction, from string, most uint32) {
	if most == 0 {
		return
	}
	for _, f := range both {
		t.addSet(set{name: setCrowd + f.version, key: f.address, flags: unix.NFT_SET_EVAL, size: crowdSize}, nil)
		t.addSet(set{name: setCrowded + f.version, key: f.address, flags: unix.NFT_SET_EVAL | unix.NFT_SET_TIMEOUT, size: crowdSize}, nil)
	}
	t.chain("crowded")
	t.rule("crowded", count())
	t.rule("crowded", goTo("refuse"))
	for _, c := range []struct {
		name string
		hook hook
	}{{"crowd-input", received(expr.VerdictAccept)}, {"crowd-forward", forwarded(expr.VerdictAccept)}} {
		t.base(c.name, beforeJudgement(c.hook))
		t.both(c.name, func(f family) []words {
			return []words{
				iifname(from), ctState(newConnection), f.saddr(), countOver(setCrowd+f.version, most), note(setCrowded + f.version), goTo("crowded"),
			}
		})
	}
}

// newConnection is the state of a packet that begins one. (NF_CT_STATE_BIT, linux/netfilter/nf_conntrack_common.h.)
const newConnection = expr.CtStateBitNEW

// countOver holds if the address that was looked at has more connections than most; it is put into the set.
func countOver(set string, most uint32) words {
	return words{&expr.Dynset{SrcRegKey: first, SetName: set, Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{
		&expr.Connlimit{Count: most, Flags: unix.NFT_LIMIT_F_INV},
	}}}
}

// note puts the address that was looked at into a set, for crowdedTime from now.
func note(set string) words {
	return words{&expr.Dynset{SrcRegKey: first, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: crowdedTime}}
}

// Crowded are the addresses of pods that were refused connections within the last minute: with the empty ID those of pods of the default
// Network, else the own addresses of those of a porthole, none when it is not there. Without a bound there
// are no such sets, and it is an error to ask.
func (k *Keeper) Crowded(id ID) ([]netip.Addr, error) {
	var out []netip.Addr
	read := func(ns.NetNS) error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
		for _, f := range both {
			elements, err := c.GetSetElements(&nftables.Set{Table: table, Name: setCrowded + f.version})
			if err != nil {
				return err
			}
			for _, e := range elements {
				if address, ok := netip.AddrFromSlice(e.Key); ok {
					out = append(out, address)
				}
			}
		}
		return nil
	}
	if id == "" {
		err := read(nil)
		return out, err
	}
	err := ns.WithNetNSPath(id.NetnsPath(), read)
	if errors.As(err, new(ns.NSPathNotExistErr)) {
		return nil, nil
	}
	return out, err
}

// count counts the packets that come here.
func count() words { return words{&expr.Counter{}} }
