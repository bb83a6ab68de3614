package porthole

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// Review looks at portholes, and at the node's own side, and names what Repair and EnsureHost would change. It changes nothing
// there: it writes into a network namespace of its own alone, which ends with it. The caller closes it.
type Review struct {
	keeper *Keeper
	draft  ns.NetNS
}

// Review opens one. It serves one caller at a time.
func (k *Keeper) Review() (*Review, error) {
	type unshared struct {
		netns ns.NetNS
		err   error
	}
	made := make(chan unshared)
	go onLastThread(func() { // ends at once
		var u unshared
		if u.err = unix.Unshare(unix.CLONE_NEWNET); u.err == nil {
			u.netns, u.err = ns.GetCurrentNS()
		}
		made <- u
	})
	u := <-made
	if u.err != nil {
		return nil, fmt.Errorf("make a network namespace to compare with: %w", u.err)
	}
	return &Review{k, u.netns}, nil
}

// Close removes what it compared with.
func (r *Review) Close() { _ = r.draft.Close() }

// found are differences as they are found.
type found []api.NodeDifference

func (f *found) add(kind api.NodeDifferenceKind, object, want, have string) {
	*f = append(*f, api.NodeDifference{Kind: kind, Object: object, Want: want, Have: have})
}

// Porthole is what of a porthole is not as spec says. Nobody may change it meanwhile, or what is on its way is told, too.
func (r *Review) Porthole(spec Spec) ([]api.NodeDifference, error) {
	spec = spec.normal()
	var out found
	netns, err := ns.GetNS(spec.id().NetnsPath())
	_, absent := errors.AsType[ns.NSPathNotExistErr](err)
	_, another := errors.AsType[ns.NSPathNotNSErr](err)
	switch {
	case absent, another:
		out.add(api.NodeObjectMissing, "network namespace "+spec.id().Name(), "", "")
		return out, nil
	case err != nil:
		return nil, fmt.Errorf("open network namespace %s: %w", spec.id().Name(), err)
	}
	defer netns.Close()
	place := " in " + spec.id().Name()
	rules, err := r.table(netns, tableName, place, portholeRules(spec, something).commit)
	if err != nil {
		return nil, err
	}
	out = append(out, rules...)
	broken, err := cablesDiffer(spec.cables(), netns, &out)
	if err != nil || broken {
		// What is on links that are made anew is made anew, too.
		return out, err
	}
	if err := inside(netns, func() error { return insideDiffers(spec, place, &out) }); err != nil {
		return nil, err
	}
	index, err := netdev.LinkOf(spec.id().HostLink())
	if err != nil {
		return nil, err
	}
	link := index.Attrs().Index
	for _, family := range families(spec.hasIPv6()) {
		if err := neighbourDiffers(link, fixed{spec.id().HostLink(), hopFor(family).porthole, portholeMAC}, "", &out); err != nil {
			return nil, err
		}
	}
	err = routesDiffer(r.keeper.faceRoutes(spec, spec.Pods, link), func(r route) bool { return r.link == link }, "", &out)
	return out, err
}

// Host is what of the node's own side is not as host says.
func (r *Review) Host(host Host) ([]api.NodeDifference, error) {
	host = host.normal()
	var out found
	for _, table := range []struct {
		name  string
		write func() error
	}{{tableName, hostRules(host).commit}, {netdev.GuardTable, netdev.Guard}} {
		rules, err := r.table(nil, table.name, "", table.write)
		if err != nil {
			return nil, err
		}
		out = append(out, rules...)
	}
	settingsDiffer("", "", &out, netdev.Setting{Protocol: "ipv4", Key: "ip_forward", Value: "1"})
	if host.hasIPv6() {
		settingsDiffer(netdev.AllInterfaces, "", &out, netdev.Setting{Protocol: "ipv6", Key: "forwarding", Value: "1"})
	}
	if len(host.Addresses) == 0 {
		for _, c := range host.cables() {
			if there, err := netdev.Exists(c.outer); err != nil {
				return nil, err
			} else if there {
				out.add(api.NodeObjectSurplus, "link "+c.outer, "", "")
			}
		}
	} else {
		broken, err := cablesDiffer(host.cables(), nil, &out)
		if err != nil || broken {
			return out, err
		}
		for _, c := range host.cables() {
			link, err := netlink.LinkByName(c.inner)
			if err != nil {
				return nil, fmt.Errorf("find %s: %w", c.inner, err)
			}
			settingsDiffer(c.inner, "", &out, nodeSettings(host.hasIPv6())...)
			downDiffers(link, "", &out)
			if err := addressesDiffer(link, host.addressesOf(link), "", &out); err != nil {
				return nil, err
			}
		}
	}
	wanted, scope, err := host.routes()
	if err != nil {
		return nil, err
	}
	err = routesDiffer(wanted, scope, "", &out)
	return out, err
}

// table compares a table in a namespace with what write makes of it in the draft.
func (r *Review) table(netns ns.NetNS, name, place string, write func() error) ([]api.NodeDifference, error) {
	var want, have *shownTable
	err := inside(r.draft, func() error {
		if err := write(); err != nil {
			return fmt.Errorf("write rules to compare with: %w", err)
		}
		var err error
		want, err = showTable(name)
		return err
	})
	if err == nil {
		err = inside(netns, func() (err error) {
			have, err = showTable(name)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return want.differences(have, name, place), nil
}

// cablesDiffer compares pairs of links. broken: they would be made anew.
func cablesDiffer(cables []cable, netns ns.NetNS, out *found) (broken bool, err error) {
	for _, c := range cables {
		differs, err := c.differences(netns)
		if err != nil {
			return false, err
		}
		*out = append(*out, differs...)
		if len(differs) > 0 {
			broken = true
			continue
		}
		link, err := netdev.Find(c.outer)
		if err != nil {
			return false, err
		}
		if link != nil {
			downDiffers(link, "", out)
		}
	}
	return broken, nil
}

// insideDiffers compares what furnish makes. It runs inside.
func insideDiffers(spec Spec, place string, out *found) error {
	settingsDiffer(netdev.AllInterfaces, place, out, allSettings(spec.hasIPv6())...)
	links := map[string]netlink.Link{}
	for _, name := range []string{"lo", networkSide, hostSide} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		links[name] = link
		downDiffers(link, place, out)
		if name != "lo" {
			settingsDiffer(name, place, out, insideSettings(spec.hasIPv6())...)
		}
	}
	for name, wanted := range map[string][]netip.Prefix{"lo": spec.nameAddresses(), networkSide: spec.ownAddresses()} {
		if err := addressesDiffer(links[name], wanted, place, out); err != nil {
			return err
		}
	}
	for _, n := range spec.neighbours() {
		if err := neighbourDiffers(links[n.link].Attrs().Index, n, place, out); err != nil {
			return err
		}
	}
	for _, family := range families(spec.hasIPv6()) {
		if err := leadingOutDiffers(family, place, out); err != nil {
			return err
		}
	}
	return routesDiffer(spec.routes(links[networkSide].Attrs().Index, links[hostSide].Attrs().Index), func(route) bool { return true }, place,
		out)
}

func downDiffers(link netlink.Link, place string, out *found) {
	if link.Attrs().RawFlags&unix.IFF_UP == 0 {
		out.add(api.NodeObjectDiffers, "link "+link.Attrs().Name+place, "up", "down")
	}
}

func settingsDiffer(iface, place string, out *found, wanted ...netdev.Setting) {
	for _, have := range netdev.Unset(iface, wanted...) {
		i := slices.IndexFunc(wanted, func(s netdev.Setting) bool { return s.Protocol == have.Protocol && s.Key == have.Key })
		name := have.Key
		if iface != "" {
			name += " of " + iface
		}
		out.add(api.NodeObjectDiffers, "setting "+have.Protocol+" "+name+place, wanted[i].Value, have.Value)
	}
}

func addressesDiffer(link netlink.Link, wanted []netip.Prefix, place string, out *found) error {
	present, err := netdev.ListAddresses(link)
	if err != nil {
		return err
	}
	var want, have []string
	for _, a := range wanted {
		want = append(want, a.String())
	}
	for _, a := range present {
		if prefix, counts := addressIn(a); counts {
			have = append(have, prefix.String())
		}
	}
	missing, surplus := unlike(want, have)
	out.addAll("addresses of "+link.Attrs().Name+place, missing, surplus)
	return nil
}

func (f *found) addAll(object string, missing, surplus []string) {
	for _, text := range missing {
		f.add(api.NodeObjectMissing, object, text, "")
	}
	for _, text := range surplus {
		f.add(api.NodeObjectSurplus, object, "", text)
	}
}

func neighbourDiffers(link int, n fixed, place string, out *found) error {
	object := "neighbour " + n.address.String() + " of " + n.link + place
	list, err := netlink.NeighList(link, netlinkFamily(n.address))
	for range tries {
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
		list, err = netlink.NeighList(link, netlinkFamily(n.address))
	}
	if err != nil {
		return fmt.Errorf("list neighbours of %s: %w", n.link, err)
	}
	for _, have := range list {
		if a, _ := netip.AddrFromSlice(have.IP); a.Unmap() != n.address {
			continue
		}
		if is := have.HardwareAddr.String(); is != n.mac || have.State&netlink.NUD_PERMANENT == 0 {
			out.add(api.NodeObjectDiffers, object, n.mac+", for good", is)
		}
		return nil
	}
	out.add(api.NodeObjectMissing, object, n.mac, "")
	return nil
}

func leadingOutDiffers(family netip.Addr, place string, out *found) error {
	rules, err := netlinksafe.RuleList(netlinkFamily(family))
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	if !slices.ContainsFunc(rules, func(r netlink.Rule) bool {
		return r.IifName == networkSide && r.Table == wayOut && r.Priority == wayOutRule
	}) {
		version := "IPv4"
		if family.Is6() {
			version = "IPv6"
		}
		out.add(api.NodeObjectMissing, "routing rule for "+version+place, fmt.Sprintf("iif %s lookup %d", networkSide, wayOut), "")
	}
	return nil
}

func routesDiffer(wanted []route, scope func(route) bool, place string, out *found) error {
	have, err := ownRoutes()
	if err != nil {
		return err
	}
	missing, surplus := unlikeRoutes(wanted, have, scope)
	names, err := linkNames()
	if err != nil {
		return err
	}
	text := func(r route) string { return r.text(names) }
	for _, r := range missing {
		out.add(api.NodeObjectMissing, "routes"+place, text(r), "")
	}
	for _, r := range surplus {
		out.add(api.NodeObjectSurplus, "routes"+place, "", text(r))
	}
	return nil
}

func linkNames() (map[int]string, error) {
	links, err := listLinks()
	out := make(map[int]string, len(links))
	for _, link := range links {
		out[link.Attrs().Index] = link.Attrs().Name
	}
	return out, err
}

// text is a route as ip shows it.
func (r route) text(links map[int]string) string {
	words := []string{r.to.String()}
	if r.link == 0 {
		words = append([]string{"unreachable"}, words...)
	}
	if r.via.IsValid() {
		words = append(words, "via", r.via.String())
	}
	if r.link != 0 {
		words = append(words, "dev", links[r.link])
	}
	if r.source.IsValid() {
		words = append(words, "src", r.source.String())
	}
	if r.table != unix.RT_TABLE_MAIN {
		words = append(words, fmt.Sprintf("table %d", r.table))
	}
	return strings.Join(words, " ")
}
