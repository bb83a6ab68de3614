package status

import (
	"context"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	ovn "github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// addRows puts a Network's router and switches into its details.
func addRows(ctx context.Context, northbound snapshot.Selector, n *api.Network, standard string) {
	router := n.Name
	if n.Status.Type == string(model.Flat) {
		router = standard // Flat Networks hang on the default one's.
	}
	rows := []api.Row{{Table: snapshot.TableRouter, Name: router}}
	asked := []ovsdb.Operation{ovn.SelectRows(snapshot.TableRouter, []string{"ports"}, ovn.Equal("name", router))}
	for _, r := range n.Status.Ranges {
		name := compile.SwitchName(n.Name, r.Subnet)
		if slices.ContainsFunc(rows, func(r api.Row) bool { return r.Name == name }) {
			continue // It has a range of each family.
		}
		rows = append(rows, api.Row{Table: snapshot.TableSwitch, Name: name})
		asked = append(asked, ovn.SelectRows(snapshot.TableSwitch, []string{"ports"}, ovn.Equal("name", name)))
	}
	found, err := northbound.Select(ctx, asked...)
	if err != nil {
		n.Status.Detail.Problem = snapshot.NotAnswering("northbound")
		return
	}
	for i, have := range found {
		if len(have) > 0 {
			rows[i].There, rows[i].Ports = true, ovn.Count(have[0], "ports")
		}
	}
	n.Status.Detail.Rows = rows
}

// podRows are a pod's rows in the databases. Each part has the error for which it is not known.
type podRows struct {
	// port is the row in the northbound database; nil when there is none.
	port            *portRow
	northboundError error
	// binding is that in the southbound one; nil when there is none.
	binding         *ovn.Binding
	southboundError error
}

type portRow struct{ addresses []string }

func readPodRows(ctx context.Context, northbound, southbound snapshot.Selector, name string) (out podRows) {
	found, err := northbound.Select(ctx, ovn.SelectRows(snapshot.TablePort, []string{"addresses"}, ovn.Equal("name", name)))
	if err != nil {
		out.northboundError = err
	} else if len(found[0]) > 0 {
		out.port = &portRow{ovn.Texts(found[0][0], "addresses")}
	}
	out.binding, out.southboundError = readBinding(ctx, southbound, name)
	return out
}

func readBinding(ctx context.Context, southbound snapshot.Selector, name string) (*ovn.Binding, error) {
	found, err := southbound.Select(ctx, ovn.SelectRows(snapshot.TableBinding, []string{"chassis", "up"}, ovn.Equal("logical_port", name)))
	if err != nil || len(found[0]) == 0 {
		return nil, err
	}
	row := found[0][0]
	out := &ovn.Binding{Up: ovn.Is(row, "up")}
	id := ovn.Text(row, "chassis")
	if id == "" {
		return out, nil
	}
	chassis, err := southbound.Select(ctx,
		ovn.SelectRows(snapshot.TableChassis, []string{"name", "hostname"}, ovn.Equal("_uuid", ovsdb.UUID{GoUUID: id})))
	if err != nil {
		return nil, err
	}
	if len(chassis[0]) > 0 {
		out.Chassis, out.Hostname = ovn.Text(chassis[0][0], "name"), ovn.Text(chassis[0][0], "hostname")
	}
	return out, nil
}

// southboundState is what the southbound database tells of nodes and ports.
type southboundState struct {
	// chassis are the names of all, those of their hosts too.
	chassis map[string]bool
	// unbound are the ports of pods that no node has bound, or that are not up.
	unbound int
}

func readSouthbound(ctx context.Context, southbound snapshot.Selector, pods map[model.PodKey]*model.Pod) (*southboundState, error) {
	normal := ovn.Equal("type", "")
	found, err := southbound.Select(ctx,
		ovn.SelectRows(snapshot.TableChassis, []string{"name", "hostname"}),
		ovn.SelectRows(snapshot.TableBinding, []string{"logical_port"}, normal, ovn.Equal("chassis", ovsdb.OvsSet{})),
		ovn.SelectRows(snapshot.TableBinding, []string{"logical_port"}, normal, ovn.Equal("up", false)))
	if err != nil {
		return nil, err
	}
	out := &southboundState{chassis: map[string]bool{}}
	for _, row := range found[0] {
		out.chassis[ovn.Text(row, "name")], out.chassis[ovn.Text(row, "hostname")] = true, true
	}
	seen := map[string]bool{}
	for _, row := range slices.Concat(found[1], found[2]) {
		name := ovn.Text(row, "logical_port")
		if key, is := model.ParsePortName(name); is && pods[key.Pod] != nil && !seen[name] {
			seen[name] = true
			out.unbound++
		}
	}
	return out, nil
}
