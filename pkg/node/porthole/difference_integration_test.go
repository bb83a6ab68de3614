//go:build integration

package porthole

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestOnlyWhatDiffersIsChanged: from any state to any other the table comes to be what it would be if it were made from nothing,
// and keeps its chains and sets: none is made anew.
func TestOnlyWhatDiffersIsChanged(t *testing.T) {
	spec := func(change func(*Spec)) func() *transaction {
		return func() *transaction {
			s := testSpec("u1")
			change(&s)
			return portholeRules(s.normal(), something)
		}
	}
	host := func(change func(*Host)) func() *transaction {
		return func() *transaction {
			h := testHost()
			change(&h)
			return hostRules(h.normal())
		}
	}
	for kind, states := range map[string][]func() *transaction{
		"porthole": {
			spec(func(*Spec) {}),
			spec(func(s *Spec) { s.Egress, s.Infra, s.DNS = model.EgressNone, model.InfraNone, nil }),
			spec(func(s *Spec) { s.Infra, s.Consumer = model.InfraDirect, true }),
			spec(func(s *Spec) { s.Consumer, s.Addressed = true, parsed("10.7.0.0/16", "fd07::/64") }),
			spec(func(s *Spec) { s.Consumer, s.Provider, s.Pods = true, true, s.Pods[:2] }),
			spec(func(s *Spec) { s.Subnets, s.Cluster.Servers, s.Pods = s.Subnets[:1], nil, nil }),
			// Ranges that touch each other, of which a part stays.
			spec(func(s *Spec) {
				s.Subnets = parsed("0.0.0.0/9", "0.128.0.0/9", "240.0.0.0/4", "::/16", "1::/16", "ff00::/8")
			}),
			spec(func(s *Spec) { s.Subnets = parsed("0.0.0.0/8", "240.0.0.0/5", "0::/16", "ff00::/9") }),
		},
		"node": {
			host(func(*Host) {}),
			host(func(h *Host) { h.Compatible = []Compatible{{"u2", "u1"}, {"u1", "u2"}, {"u4", "u2"}} }),
			host(func(h *Host) { h.Compatible, h.Direct, h.Flat = nil, nil, h.Flat[:1] }),
			host(func(h *Host) { h.Blocks, h.Walls.Instead = parsed("100.64.1.0/24", "fd64::1:0/112"), nil }),
			host(func(h *Host) { h.Walls.TunnelPorts, h.Walls.Databases = nil, h.Walls.Databases[:1] }),
			host(func(h *Host) {
				h.Cluster.Infra = append(h.Cluster.Infra, netip.MustParsePrefix("192.0.2.3/32"), netip.MustParsePrefix("192.0.2.4/31"))
			}),
		},
	} {
		var want []string
		for _, state := range states {
			must(t, state().commit())
			want = append(want, listed(t))
		}
		for from := range states {
			for to := range states {
				t.Run(fmt.Sprintf("%s from %d to %d", kind, from, to), func(t *testing.T) {
					must(t, states[from]().commit())
					before := handles(t, nil)
					change, ok := states[to]().since(states[from]())
					if !ok {
						t.Fatal("it takes a table of its own")
					}
					if empty := len(change.messages()) == 0; empty != (from == to) {
						t.Errorf("it changes nothing: %t", empty)
					}
					must(t, change.commit())
					if diff := cmp.Diff(want[to], listed(t)); diff != "" {
						t.Errorf("-made from nothing +changed:\n%s", diff)
					}
					if diff := cmp.Diff(before, handles(t, nil)); diff != "" {
						t.Errorf("chains and sets that are others now (-before +after):\n%s", diff)
					}
				})
			}
		}
	}
	run(t, "nft", "delete", "table", "inet", tableName)
}

// listed is our table in nft's words, with the elements of each set in one order.
func listed(t *testing.T) string {
	t.Helper()
	return regexp.MustCompile(`(?s)elements = \{[^}]*\}`).ReplaceAllStringFunc(
		run(t, "nft", "list", "table", "inet", tableName), func(text string) string {
			elements := strings.Split(strings.Trim(strings.TrimPrefix(text, "elements = "), "{} \n"), ",")
			for i := range elements {
				elements[i] = strings.Join(strings.Fields(elements[i]), " ")
			}
			slices.Sort(elements)
			return strings.Join(elements, ", ")
		})
}

// TestAChangeKeepsTheTables: so does who changes a porthole, or the node's side, and if somebody else has touched it everything
// is made anew.
func TestAChangeKeepsTheTables(t *testing.T) {
	k := keeper(t)
	spec, host := testSpec("u1"), testHost()
	inside := []string{"ip", "netns", "exec", spec.id().Name()}
	made := func() [2][]string {
		t.Helper()
		// Routes to faces name the node's address.
		must(t, k.EnsureHost(host))
		must(t, k.Ensure(spec))
		return [2][]string{handles(t, inside), handles(t, nil)}
	}
	before := made()
	spec.Consumer, spec.Cluster.Infra = true, spec.Cluster.Infra[1:]
	host.Compatible, host.Walls.TunnelPorts = host.Compatible[:1], nil
	after := made()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("chains and sets that are others now (-before +after):\n%s", diff)
	}
	spec.Consumer, host.Compatible = false, nil
	for i, command := range [][]string{inside, nil} {
		run(t, append(command, "nft", "flush", "chain", "inet", tableName, "refuse")...)
		if now := made(); slices.Equal(now[i], after[i]) {
			t.Errorf("table %d was touched, and has the chains and sets that it had: %q", i, now[i])
		}
	}
}

// handles are the kernel's numbers of our table, and of its chains and named sets, where a command leads.
func handles(t *testing.T, inside []string) (out []string) {
	t.Helper()
	for line := range strings.Lines(run(t, append(inside, "nft", "-a", "list", "table", "inet", tableName)...)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "table ") || strings.HasPrefix(line, "chain ") ||
			strings.HasPrefix(line, "set ") || strings.HasPrefix(line, "map ") {
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		t.Fatal("the table is empty")
	}
	return out
}
