package chassis

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clusterKey is where the local database has the id of the southbound database's cluster that ovn-controller knows. One that has known
// another takes nothing of a new one: its entries have smaller numbers, and look old (ovsdb(7)).
const clusterKey = "atoll-southbound"

const (
	// seedFor bounds how long it is tried to write the node's own chassis, and peersFor how long the others' are waited for.
	seedFor  = 30 * time.Second
	peersFor = 15 * time.Second
	// askAgain is the pause between two looks at the southbound database.
	askAgain = 500 * time.Millisecond
)

// move prepares for an ovn-controller that is to work with a southbound database that was made anew, in which there is no chassis
// yet. ovn-controller takes its tunnels away to chassis that the database does not have: so the node's own is there first, and it
// starts when those are there to which it has tunnels. What fails is said; the node goes on without.
func (c Controller) move(ctx context.Context, to place, log *slog.Logger) {
	began := time.Now()
	seeding, cancel := context.WithTimeout(ctx, seedFor)
	defer cancel()
	if err := c.again(seeding, func(ctx context.Context) error { return c.seed(ctx, to) }); err != nil {
		log.Warn("the node's chassis is not written; ovn-controller does it", "error", err)
	}
	peers, err := c.peers(ctx)
	if err != nil {
		log.Warn("the node's tunnels are not known", "error", err)
	}
	waiting, cancel := context.WithTimeout(ctx, peersFor)
	defer cancel()
	if err := c.again(waiting, func(ctx context.Context) error {
		printed, err := c.sbctl(ctx, to, "--bare", "--columns=name", "list", "Chassis")
		if err != nil {
			return err
		}
		if absent := absentFrom(peers, strings.Fields(printed)); len(absent) > 0 {
			return fmt.Errorf("no chassis yet: %s", strings.Join(absent, ", "))
		}
		return nil
	}); err != nil {
		log.Warn("not all nodes are back to which this one has tunnels", "error", err)
	}
	log.Info("ready for the new southbound database", "after", time.Since(began).Round(time.Millisecond), "peers", len(peers))
}

// seed writes the node's chassis if it is not there. All that ovn-controller writes of it and may not change later is in it: its
// role lets it set the hostname of a new row only, and a row without would keep it from writing anything.
func (c Controller) seed(ctx context.Context, to place) error {
	printed, err := c.sbctl(ctx, to, "--bare", "--columns=name", "list", "Chassis")
	if err != nil || slices.Contains(strings.Fields(printed), c.Node) {
		return err
	}
	_, err = c.sbctl(ctx, to,
		"--id=@e", "create", "Encap", "type=geneve", "ip="+strconv.Quote(c.Tunnel.String()), "chassis_name="+strconv.Quote(c.Node),
		"options:csum=true",
		"--", "create", "Chassis", "name="+strconv.Quote(c.Node), "hostname="+strconv.Quote(c.Node), "encaps=@e")
	return err
}

// again calls f until it succeeds or ctx ends; the error is the last one of f.
func (c Controller) again(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgain):
		}
	}
}

// sbctl runs ovn-sbctl(8) as this node.
func (c Controller) sbctl(ctx context.Context, to place, words ...string) (string, error) {
	arguments := []string{"--db=" + to.remote, "--no-leader-only", "--timeout=5"}
	if c.Certificates != "" {
		for _, f := range c.files() {
			arguments = append(arguments, "--"+f.option+"="+f.path)
		}
	}
	return c.Directories.run(ctx, "ovn-sbctl", append(arguments, words...)...)
}

// peers are the chassis to which the node has tunnels.
func (c Controller) peers(ctx context.Context) ([]string, error) {
	// A row without the key does not match (ovs-vsctl(8)).
	printed, err := c.Directories.vsctl(ctx, "--bare", "--columns=external_ids", "find", "Port", tunnelKey+"!=\"\"")
	if err != nil {
		return nil, err
	}
	return peersIn(printed), nil
}

const tunnelKey = "external_ids:ovn-chassis-id"

// peersIn reads names of chassis from external_ids of tunnels' ports: ovn-chassis-id=NAME@ADDRESS...
func peersIn(printed string) []string {
	var out []string
	for word := range strings.FieldsSeq(printed) {
		if id, found := strings.CutPrefix(word, strings.TrimPrefix(tunnelKey, "external_ids:")+"="); found {
			name, _, _ := strings.Cut(id, "@")
			out = append(out, name)
		}
	}
	return out
}

// absentFrom are those of want that have does not have.
func absentFrom(want, have []string) []string {
	there := map[string]bool{}
	for _, h := range have {
		there[h] = true
	}
	var out []string
	for _, w := range want {
		if !there[w] {
			out = append(out, w)
		}
	}
	return out
}
