//go:build integration

package decide_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// TestWhatANetworkCosts makes 100 Networks of three pods each on three nodes, prints what logical flows of each table and what bytes they
// take in OVN, and holds the bounds of docs/design/networks.md.
func TestWhatANetworkCosts(t *testing.T) {
	const networks, pods = 100, 3
	for _, c := range []struct {
		name  string
		cidrs []string
		faces []string
		// flows of a Network with its pods, and bytes of the southbound database.
		flows float64
		bytes int64
	}{
		{"ipv4", []string{"10.0.0.0/24"}, []string{"100.64.0.0/10"}, 60, 3_400_000},
		{"dual-stack", []string{"10.0.0.0/24", "fd00:10::/64"}, []string{"100.64.0.0/10", "fd64:a701::/64"}, 80, 4_300_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			central, cluster := ovn.Start(t, true), newCluster()
			startEngineOf(t, cluster, central.NBAddress(), "one", withFaces(c.faces...))
			for i := range pods {
				cluster.setNode(node(fmt.Sprint("n", i), 1))
			}
			add := func(from, to int) {
				for i := from; i < to; i++ {
					name := fmt.Sprintf("net-%d", i)
					n := network(name, "default", c.cidrs[0])
					n.UID = uuid.NewString()
					for _, cidr := range c.cidrs[1:] {
						n.Subnets[0].CIDRs = append(n.Subnets[0].CIDRs, netip.MustParsePrefix(cidr))
					}
					cluster.setNetwork(n)
					cluster.setNamespace(name, map[string]string{model.LabelNetwork: name})
				}
			}
			populate := func(from, to int) {
				for i := from; i < to; i++ {
					for j := range pods {
						p := pod(fmt.Sprintf("net-%d", i), fmt.Sprint("pod-", j), "")
						p.UID, p.Node = uuid.NewString(), fmt.Sprint("n", j)
						cluster.setPod(p)
					}
				}
			}
			// The first Network with its pods brings what is there once, and the first Network of all.
			add(0, 1)
			populate(0, 1)
			first := measureOVN(t, central, fmt.Sprintf("net-%d/pod-%d", 0, pods-1))
			add(1, networks)
			empty := measureOVN(t, central, "net-99:porthole")
			populate(1, networks)
			full := measureOVN(t, central, fmt.Sprintf("net-%d/pod-%d", networks-1, pods-1))
			for i := range networks {
				name := fmt.Sprintf("net-%d", i)
				cluster.setService(service(name, "web", fmt.Sprintf("10.96.0.%d", i+1)))
				s := slice(name, "web", "web")
				s.Endpoints = []model.Endpoint{endpoint(name, "pod-0", "10.0.0.2")}
				cluster.setSlice(s)
			}
			last := fmt.Sprintf("net-%d", networks-1)
			eventually(t, last, func() string { return balancerOf(t, central, last+"/"+last+"/web:tcp", last) })
			served := measureOVN(t, central, last+":porthole")

			t.Logf("%-45s %12s %12s %12s", "per Network", "empty", "with 3 pods", "a Service")
			for _, of := range []string{"flows", "south", "north"} {
				t.Logf("%-45s %12.1f %12.1f %12.1f", of, empty.since(first, of)/(networks-1), full.since(first, of)/(networks-1),
					served.since(full, of)/networks)
			}
			for _, table := range slices.SortedFunc(maps.Keys(full), func(a, b string) int {
				return cmp.Or(cmp.Compare(full[b]-first[b], full[a]-first[a]), cmp.Compare(a, b))
			}) {
				if strings.Contains(table, " ") && full[table] != first[table] {
					t.Logf("%-45s %12.2f %12.2f", table, empty.since(first, table)/(networks-1), full.since(first, table)/(networks-1))
				}
			}
			t.Logf("southbound database: %d bytes; northbound: %d", full["south"], full["north"])
			if got := full.since(first, "flows") / (networks - 1); got > c.flows {
				t.Errorf("a Network with %d pods has %.1f logical flows; want at most %.0f", pods, got, c.flows)
			}
			if full["south"] > c.bytes {
				t.Errorf("the southbound database has %d bytes; want at most %d", full["south"], c.bytes)
			}
		})
	}
}

// balancerOf is what is asked for once the load balancer of that name has a backend.
func balancerOf(t *testing.T, central *ovn.Central, name, asked string) string {
	t.Helper()
	out, err := central.NBCtl(t.Context(), "--bare", "--columns=vips", "find", "Load_Balancer", fmt.Sprintf("name=%q", name))
	if err != nil || !strings.Contains(out, "10.0.0.2") {
		return out
	}
	return asked
}

// amounts are numbers of flows, by their stage, of rows of databases, and of bytes.
type amounts map[string]int64

func (a amounts) since(before amounts, what string) float64 { return float64(a[what] - before[what]) }

// measureOVN waits until a logical port is there and ovn-northd has done its work, has both databases compacted, and looks.
func measureOVN(t *testing.T, central *ovn.Central, port string) amounts {
	t.Helper()
	eventually(t, port, func() string {
		out, err := central.NBCtl(t.Context(), "--bare", "--columns=name", "find", "Logical_Switch_Port", fmt.Sprintf("name=%q", port))
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(out)
	})
	if _, err := central.NBCtl(t.Context(), "--timeout=300", "--wait=sb", "sync"); err != nil {
		t.Fatal(err)
	}
	out := amounts{}
	for name, key := range map[string]string{"nb": "north", "sb": "south"} {
		if _, err := central.Ask(t.Context(), name, "ovsdb-server/compact"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(central.File(name))
		if err != nil {
			t.Fatal(err)
		}
		out[key] = int64(len(text))
		out.count(t, key, text)
	}
	return out
}

// count adds what a compacted database's file holds: a record with the schema, and one with all rows. (ovsdb(5), standalone database.)
func (a amounts) count(t *testing.T, key string, text []byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines[2:] {
		if strings.HasPrefix(line, "OVSDB ") {
			continue
		}
		var tables map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &tables); err != nil {
			t.Fatal(err)
		}
		for table, rows := range tables {
			var byUUID map[string]json.RawMessage
			if json.Unmarshal(rows, &byUUID) != nil {
				continue
			}
			a[key+" rows of "+table] += int64(len(byUUID))
			a[key+" bytes of "+table] += int64(len(rows))
			if table != "Logical_Flow" {
				continue
			}
			for _, row := range byUUID {
				var flow struct {
					ExternalIDs []any `json:"external_ids"`
				}
				if err := json.Unmarshal(row, &flow); err != nil {
					t.Fatal(err)
				}
				a["flows"]++
				a["flows in "+stageName(flow.ExternalIDs)]++
			}
		}
	}
}

func stageName(externalIDs []any) string {
	if len(externalIDs) == 2 {
		pairs, _ := externalIDs[1].([]any)
		for _, p := range pairs {
			if pair, _ := p.([]any); len(pair) == 2 && pair[0] == "stage-name" {
				return fmt.Sprint(pair[1])
			}
		}
	}
	return "?"
}
