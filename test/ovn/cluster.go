package ovn

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// Cluster is a northbound database on three servers, joined by raft.
type Cluster struct {
	*Central
	members []string
}

// StartCluster runs a northbound database of three servers for the time of a test.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "ovn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	found, err := parts.LocateOVN(os.Getenv(PrefixVariable))
	if err != nil {
		t.Fatalf("find OVN by %s: %v", PrefixVariable, err)
	}
	c := &Cluster{Central: newCentral(found, dir), members: []string{"nb1", "nb2", "nb3"}}
	t.Cleanup(c.Stop)
	for i, m := range c.members {
		raft := func(member string) string { return "unix:" + c.path(member+".raft") }
		args := []string{"create-cluster", c.path(m + ".db"), c.parts.NorthboundSchema, raft(m)}
		if i > 0 {
			args = []string{"join-cluster", c.path(m + ".db"), "OVN_Northbound", raft(m), raft(c.members[0])}
		}
		if _, err := c.ctl(t.Context(), "ovsdb-tool", args...); err != nil {
			t.Fatal(err)
		}
		if err := c.StartDatabase(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := c.awaitMember(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Addresses are those of all servers.
func (c *Cluster) Addresses() []string {
	var out []string
	for _, m := range c.members {
		out = append(out, "unix:"+c.path(m+".sock"))
	}
	return out
}

// Leader is the server that leads, of those that live.
func (c *Cluster) Leader(ctx context.Context) (string, error) {
	for _, m := range c.members {
		if c.procs[m] == nil {
			continue
		}
		status, err := c.ctl(ctx, "ovs-appctl", "-t", c.path(m+".ctl"), "cluster/status", "OVN_Northbound")
		if err == nil && strings.Contains(status, "Role: leader") {
			return m, nil
		}
	}
	return "", fmt.Errorf("no server leads")
}

// NBCtl runs ovn-nbctl on whichever server leads and returns what it prints.
func (c *Cluster) NBCtl(ctx context.Context, args ...string) (string, error) {
	return c.ctl(ctx, "ovn-nbctl", append([]string{"--db=" + strings.Join(c.Addresses(), ","), "--timeout=20"}, args...)...)
}

// awaitMember waits until a server has joined.
func (c *Cluster) awaitMember(ctx context.Context, member string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := c.ctl(ctx, "ovs-appctl", "-t", c.path(member+".ctl"), "cluster/status", "OVN_Northbound")
		if err == nil && strings.Contains(status, "Status: cluster member") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to join: %w: %s", member, ctx.Err(), status)
		case <-tick.C:
		}
	}
}
