package explain

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// World is what an explanation is made from: what the API server and the databases held at one moment. It is for one goroutine.
type World struct {
	rows     snapshot.Northbound
	objects  model.Changes
	settings config.Settings
	// bindings are those of the southbound database; nil when it was not read.
	bindings map[string]ovsdb.Binding
	// whole are all objects, where the others are those that who asks may be told of: what is asked for follows from all.
	whole model.Changes
	told  told
	// lately is what has changed of the rows a moment ago, and since they were read; nil where nobody knows. lagging says who has
	// not followed the northbound database.
	lately  func() ovsdb.Changes
	lagging lagging

	table    *trace.Database
	names    map[nb.Table]map[string]nb.Row
	peers    *compatible.Networks
	faces    map[netip.Addr]model.PodKey
	ownings  map[netip.Addr][]model.PodKey
	slicesOf map[model.ServiceKey][]*model.Slice
	infra    []holding
	// wanted is what the objects ask for, once somebody has asked.
	wanted *drift.Desired
	close  func()
}

// holding is a range that means the same to pods of all Networks, and what it is.
type holding struct {
	cidr netip.Prefix
	what string
}

// ReadWorld reads what explanations are made from. The southbound database is read where the access has one. Whoever has it closes it.
func ReadWorld(ctx context.Context, from connect.Servers) (*World, error) {
	heard := &connect.LastWarning{}
	log := slog.New(heard)
	cfg, err := kube.UserConfig(from.Kubeconfig, connect.UserAgent)
	if err != nil {
		return nil, err
	}
	settings, err := config.Read(ctx, cfg)
	if err != nil {
		return nil, heard.Explain(err)
	}
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: from.Northbound, Log: log})
	if err != nil {
		return nil, heard.Explain(err)
	}
	session.Take()
	objects, err := connect.ClusterObjects(ctx, from.Kubeconfig, heard)
	if err != nil {
		session.Close()
		return nil, heard.Explain(err)
	}
	var bindings map[string]ovsdb.Binding
	if len(from.Southbound) > 0 {
		if bindings, err = readBindings(ctx, from.Southbound, log); err != nil {
			session.Close()
			return nil, heard.Explain(err)
		}
	}
	w := makeWorld(session, objects, settings, bindings)
	w.close, w.lately = session.Close, session.Take
	if client, err := connect.UserClient(from.Kubeconfig); err == nil {
		w.told = toldBy(ctx, client)
	}
	return w, nil
}

func readBindings(ctx context.Context, servers []string, log *slog.Logger) (map[string]ovsdb.Binding, error) {
	southbound, err := ovsdb.OpenSouthbound(ctx, ovsdb.Config{Addresses: servers, Log: log})
	if err != nil {
		return nil, err
	}
	defer southbound.Close()
	return southbound.Bindings(ctx)
}

// Close ends what it was read from.
func (w *World) Close() {
	if w.close != nil {
		w.close()
	}
}

func makeWorld(rows snapshot.Northbound, objects model.Changes, settings config.Settings, bindings map[string]ovsdb.Binding) *World {
	w := &World{
		rows: rows, objects: objects, whole: objects, settings: settings, bindings: bindings, table: trace.New(rows.Rows),
		names: map[nb.Table]map[string]nb.Row{}, faces: map[netip.Addr]model.PodKey{}, ownings: map[netip.Addr][]model.PodKey{},
		slicesOf: map[model.ServiceKey][]*model.Slice{},
		peers:    compatible.New(settings.Compatible()),
	}
	for _, table := range []nb.Table{nb.TableLogicalRouter, nb.TableLogicalRouterPort, nb.TableLogicalSwitchPort} {
		w.names[table] = map[string]nb.Row{}
		for _, row := range rows.Rows(table) {
			w.names[table][drift.ColumnValue(row, "name").String()] = row
		}
	}
	for name, n := range objects.Networks {
		w.peers.Set(name, n)
	}
	for key, p := range objects.Pods {
		for _, a := range p.Assigned {
			for _, face := range a.Faces {
				w.faces[face] = key
			}
			for _, own := range a.Addresses {
				w.ownings[own.Addr()] = append(w.ownings[own.Addr()], key)
			}
		}
	}
	for _, pods := range w.ownings {
		slices.SortFunc(pods, model.PodKey.Compare)
	}
	for _, s := range objects.Slices {
		key := model.ServiceKey{Namespace: s.Key.Namespace, Name: s.Service}
		w.slicesOf[key] = append(w.slicesOf[key], s)
	}
	w.infra = w.holdings()
	return w
}

// holdings are what counts as infrastructure, what is nearest first.
func (w *World) holdings() (out []holding) {
	single := func(what string, addresses ...netip.Addr) {
		for _, a := range addresses {
			out = append(out, holding{netip.PrefixFrom(a, a.BitLen()), what})
		}
	}
	for _, n := range w.objects.Nodes {
		single("node "+n.Name, n.Addresses...)
		if n.Assigned != nil {
			for _, p := range n.Assigned.Addresses {
				single("node "+n.Name, p.Addr())
			}
		}
	}
	for _, r := range w.objects.Reports {
		// As agents have it, a report counts while its node does.
		if w.objects.Nodes[r.Node] == nil {
			continue
		}
		single("node "+r.Node, slices.Concat(r.Addresses, r.Tunnels)...)
	}
	for _, server := range w.apiServers() {
		single("a server of the Kubernetes API", server.Addr())
	}
	for _, n := range w.objects.Networks {
		if n.Type == model.Flat {
			for _, r := range w.subnetsOf(n) {
				out = append(out, holding{r, "Network " + n.Name})
			}
		}
	}
	for _, list := range []struct {
		what  string
		cidrs []netip.Prefix
	}{
		{"a range of the cluster's Services", w.settings.Services},
		{"a range of the AtollConfig's infraCIDRs", w.settings.Infra},
	} {
		for _, r := range list.cidrs {
			out = append(out, holding{r, list.what})
		}
	}
	slices.SortStableFunc(out, func(a, b holding) int {
		return cmp.Or(cmp.Compare(b.cidr.Bits(), a.cidr.Bits()), cmp.Compare(a.what, b.what))
	})
	return out
}

// infrastructure is what of it an address is; empty when it is none.
func (w *World) infrastructure(a netip.Addr) string {
	for _, h := range w.infra {
		if h.cidr.Contains(a) {
			return h.what
		}
	}
	return ""
}

func (w *World) layout() compile.Cluster {
	return compile.Cluster{DefaultSubnet: w.settings.Subnet, Services: w.settings.Services}
}

func (w *World) subnetsOf(n *model.Network) (out []netip.Prefix) {
	layout, _ := compile.Plan(*n, w.layout())
	for _, r := range layout.Ranges() {
		out = append(out, r.CIDR)
	}
	return out
}

func (w *World) serviceRangesOf(n *model.Network) []netip.Prefix {
	ranges, _ := compile.PlanServices(*n, w.layout())
	return ranges
}

// apiServers are where the Kubernetes API is served from.
func (w *World) apiServers() (out []netip.AddrPort) {
	for key, s := range w.objects.Slices {
		if key.Namespace != snapshot.APIKey().Namespace || s.Service != snapshot.APIKey().Name {
			continue
		}
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				out = append(out, netip.AddrPortFrom(e.Address, p.Port))
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// resolvers are the cluster's DNS addresses.
func (w *World) resolvers() []netip.Addr {
	out := slices.Clone(w.settings.DNS.Addresses)
	if s := w.objects.Services[w.settings.DNS.Service]; s != nil {
		out = append(out, s.ClusterIPs...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// resolversOf are those that the pods of a Network ask.
func (w *World) resolversOf(network string) []netip.Addr {
	out := w.resolvers()
	if n := w.objects.Networks[network]; n != nil && n.OnlyIPv6() && len(out) > 0 && !model.HasIPv6(out) {
		out = append(out, model.NamesAddress6())
	}
	return out
}

// desired is what the objects ask for.
func (w *World) desired() *drift.Desired {
	if w.wanted == nil {
		all := drift.Compile(defaultsof.Of(w.settings), w.whole, w.rows.Rows)
		w.wanted = &all
	}
	return w.wanted
}

func (w *World) sources() string {
	text := "the northbound database and the API server"
	if w.bindings == nil {
		return text + "; no southbound database was asked, so whether ports are up is not known"
	}
	return text + ", and the southbound database"
}

// drift are the differences between rows and objects that concern the ends.
func (e *explainer) drift() (out []drift.Difference) {
	for _, d := range e.desired().Differences(e.rows) {
		if e.concerns(d.Owner) {
			out = append(out, d)
		}
	}
	return out
}

// concerns reports whether an owner's rows are on the way.
func (e *explainer) concerns(o nb.Owner) bool {
	for _, n := range e.met.networks {
		if (o.Kind == nb.KindNetwork || o.Kind == nb.KindNames || o.Kind == nb.KindOffer) && strings.HasPrefix(o.Name+"/", n+"/") || o.Part == n {
			return true
		}
	}
	return slices.Contains(e.met.owners, o) || o.Kind == ""
}
