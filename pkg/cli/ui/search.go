package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

const (
	// maxFound is how many lines a search has, and maxAsked how many Networks are asked who has an address.
	maxFound, maxAsked = 200, 64
)

// found is something that was searched for.
type found struct {
	// Kind is what it is, Name how it is called, Network where it is.
	Kind, Name, Network string
	// What says more: its addresses, or what an address is for.
	What string
	// Node is where it runs.
	Node string
}

// Link is the page that tells more of it; empty when none does.
func (f found) Link() string {
	switch f.Kind {
	case "Network":
		return pathOf("network", f.Name)
	case "Pod":
		return pathOf("pod", f.Name)
	}
	if f.Network == "" {
		return ""
	}
	return pathOf("network", f.Network)
}

// searchData is what was found.
type searchData struct {
	// Address: it was searched for one. Networks are how many have it.
	Address  bool
	Networks int
	Found    []found
	// Free are Networks that could give the address and have not.
	Free []string
	// More are results that are not shown, Missing what could not be asked.
	More    int
	Missing []string
}

// search finds by name, or by address: in each Network that has it, for the same address is somebody else's in each.
func (s *Server) search(ctx context.Context, r *http.Request) (view, error) {
	q := strings.TrimSpace(r.URL.Query().Get("q"))
	v := view{Template: "search", Title: "Search", Query: q}
	if q == "" || len(q) > maxWord {
		return v, questionError{errors.New("search: write a name, a part of one, or an address")}
	}
	v.Title = "Search for " + q
	var data searchData
	if a, err := netip.ParseAddr(q); err == nil {
		if data, v.Note, err = s.findAddress(ctx, a.Unmap().WithZone("")); err != nil {
			return v, fmt.Errorf("search: %w", err)
		}
	} else if data, v.Note, err = s.findName(ctx, strings.ToLower(q)); err != nil {
		return v, fmt.Errorf("search: %w", err)
	}
	shown := data.Found[:min(len(data.Found), maxFound)]
	data.More, data.Found = len(data.Found)-len(shown), shown
	v.Data, v.Said = data, fmt.Sprintf("%d found for %s", len(data.Found)+data.More, q)
	if data.Address {
		v.Said = fmt.Sprintf("%s is in %s", q, model.Count(data.Networks, "Network"))
	}
	return v, nil
}

// findAddress asks each Network whose ranges have the address, who has it there.
func (s *Server) findAddress(ctx context.Context, a netip.Addr) (searchData, string, error) {
	out := searchData{Address: true}
	all, note, err := s.config.Source.IPAMs(ctx)
	if err != nil {
		return out, note, err
	}
	var names []string
	for _, i := range all {
		if slices.ContainsFunc(i.Status.Pools,
			func(p api.AddressPool) bool { c, err := netip.ParsePrefix(p.CIDR); return err == nil && c.Contains(a) }) {
			names = append(names, i.Name)
		}
	}
	networks := map[string]bool{}
	if len(names) > maxAsked {
		// Too many to ask each: pods are listed at once, and the first are asked for what else has it.
		pods, _, err := podsSeen(ctx, s.config.Source, nil)
		if err != nil {
			out.Missing = append(out.Missing, fmt.Sprintf("pods: %v", err))
		}
		for _, p := range pods {
			if slices.Contains(p.Status.Addresses, a.String()) {
				out.Found, networks[p.Status.Network] = append(out.Found, foundPod(p)), true
			}
		}
		out.Missing = append(out.Missing,
			fmt.Sprintf("%d Networks have a range with %s: of all but %d, pods alone were looked at", len(names), a, maxAsked))
		slices.SortStableFunc(names, func(x, y string) int { return rank(networks[x]) - rank(networks[y]) })
		names = names[:maxAsked]
	}
	answers, errs := make([]api.IPAM, len(names)), make([]error, len(names))
	each(len(names), func(i int) { answers[i], _, errs[i] = s.config.Source.IPAM(ctx, names[i]) })
	for i, answer := range answers {
		if errs[i] != nil {
			out.Missing = append(out.Missing, fmt.Sprintf("ipam %s: %v", names[i], errs[i]))
			continue
		}
		held := false
		for _, h := range answer.Status.Holders {
			if h.Address != a.String() {
				continue
			}
			held = true
			f := found{Kind: h.Kind, Name: h.Name, Network: names[i], What: string(h.Use) + " " + h.Address, Node: h.Node}
			if names[i] == api.ClusterPools {
				f.Network = ""
			} else {
				networks[names[i]] = true
			}
			if !slices.ContainsFunc(out.Found,
				func(have found) bool { return have.Kind == f.Kind && have.Name == f.Name && have.Network == f.Network }) {
				out.Found = append(out.Found, f)
			}
		}
		if !held && names[i] != api.ClusterPools {
			out.Free = append(out.Free, names[i])
		}
	}
	out.Networks = len(networks)
	slices.SortStableFunc(out.Found, func(x, y found) int { return strings.Compare(x.Network+"\x00"+x.Name, y.Network+"\x00"+y.Name) })
	return out, note, nil
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

func foundPod(p api.Pod) found {
	what := strings.Join(p.Status.Addresses, " ")
	if len(p.Status.Faces) > 0 {
		what += ", face " + strings.Join(p.Status.Faces, " ")
	}
	return found{Kind: "Pod", Name: p.Namespace + "/" + p.Name, Network: p.Status.Network, What: what, Node: p.Status.Node}
}

// findName finds Networks, tenants, subnets, Gateways and pods that have the word in their names, and what runs on nodes that have.
func (s *Server) findName(ctx context.Context, word string) (searchData, string, error) {
	var out searchData
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), word) }
	all, note, err := s.config.Source.Topologies(ctx)
	if err != nil {
		return out, note, err
	}
	add := func(f found) { out.Found = append(out.Found, f) }
	for _, t := range all {
		st := t.Status
		if has(t.Name) || (st.Tenant != "" && has(st.Tenant)) {
			add(found{
				Kind: "Network", Name: t.Name, Network: t.Name, What: strings.Join([]string{st.Type, st.Phase, topology.TenantWords(st.Tenant)}, ", "),
			})
		}
		for _, subnet := range st.Subnets {
			if has(subnet.Switch) || slices.ContainsFunc(subnet.CIDRs, has) {
				add(found{Kind: "Subnet", Name: subnet.Switch, Network: t.Name, What: strings.Join(subnet.CIDRs, " ")})
			}
		}
		for _, g := range st.Gateways {
			if has(g.Name) {
				add(found{Kind: "Gateway", Name: g.Name, Network: t.Name, What: strings.Join(g.Addresses, " ")})
			}
		}
	}
	pods, podNote, err := podsSeen(ctx, s.config.Source, nil)
	switch {
	case err != nil && !apierrors.IsForbidden(err):
		return out, note, err
	case err != nil:
		out.Missing = append(out.Missing, fmt.Sprintf("pods: %v", err))
	case note == "":
		note = podNote
	}
	for _, p := range pods {
		if has(p.Namespace+"/"+p.Name) || has(p.Status.Node) {
			add(foundPod(p))
		}
	}
	return out, note, nil
}
