package ui

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

// mapView is the list beside the map, which tells the same in words.
type mapView struct {
	Title string
	// Why says why there is none.
	Why, Note string
	Groups    []tenantGroup
	Folded    bool
	// Graph is where the picture is to be had.
	Graph string
}

// tenantGroup are the Networks of a tenant: each for itself, and those that are alike.
type tenantGroup struct {
	Tenant string
	All    []api.Topology
	Shown  []api.Topology
	Alike  []topology.Alike
}

// URL is the table of all of them.
func (g tenantGroup) URL() string { return tenantURL(g.Tenant) }

func tenantURL(tenant string) string { return "/networks?" + url.Values{"tenant": {tenant}}.Encode() }

// mapOf is the list, with Networks that are open shown each for itself.
func (s *Server) mapOf(ctx context.Context, open []string) mapView {
	all, note, err := s.config.Source.Topologies(ctx)
	if apierrors.IsForbidden(err) {
		if len(s.config.Source.Namespaces(ctx)) > 0 {
			return mapView{Title: namespacesPicture().Title, Graph: "/graph"}
		}
	}
	if err != nil {
		return mapView{Title: "No map", Why: fmt.Sprintf("topology: %v", err)}
	}
	out := mapView{Title: titleOf(all), Note: note, Folded: len(all) > topology.FoldFrom, Graph: "/graph"}
	opened := map[string]*inside{}
	for _, name := range open {
		opened[name] = &inside{}
	}
	if q := (url.Values{"open": open}).Encode(); q != "" {
		out.Graph += "?" + q
	}
	names, groups := topology.ByTenant(all)
	for _, tenant := range names {
		g := tenantGroup{Tenant: tenant, All: slices.Clone(groups[tenant])}
		g.Shown, g.Alike = foldBut(groups[tenant], opened, out.Folded)
		out.Groups = append(out.Groups, g)
	}
	return out
}
