package snapshot

import (
	"maps"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
)

// Tenants say in whose part somebody is counted. The zero value knows of nobody.
type Tenants struct {
	// namespaces are by their names, admins by their kinds and names.
	namespaces map[string]string
	admins     map[[2]string]string
}

// Tenants are those that there are.
func (s Sources) Tenants() (Tenants, error) {
	held, err := s.Held()
	if err != nil {
		return Tenants{}, err
	}
	return held.tenants(), nil
}

func (h Held) tenants() Tenants {
	out := Tenants{namespaces: map[string]string{}, admins: map[[2]string]string{}}
	for name, ns := range h.Objects.Namespaces {
		tenant := ns.Tenant()
		if n := h.Objects.Networks[ns.Network()]; tenant == "" && n != nil {
			tenant = n.Tenant
		}
		if tenant != "" {
			out.namespaces[name] = tenant
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Tenants)) {
		for _, a := range h.Objects.Tenants[name].Admins {
			key := [2]string{a.Kind, a.Name}
			if a.Kind == rbac.ServiceAccountKind {
				key = [2]string{rbac.UserKind, serviceAccount + a.Namespace + ":" + a.Name}
			}
			if _, known := out.admins[key]; !known {
				out.admins[key] = name
			}
		}
	}
	return out
}

// serviceAccount begins the names of ServiceAccounts as users.
const serviceAccount = "system:serviceaccount:"

// Of is the Tenant of somebody: that of a ServiceAccount's namespace, else the first by name whose admin they are; empty where
// there is none.
func (t Tenants) Of(user string, groups []string) string {
	if account, is := strings.CutPrefix(user, serviceAccount); is {
		namespace, _, _ := strings.Cut(account, ":")
		if tenant := t.namespaces[namespace]; tenant != "" {
			return tenant
		}
	}
	tenant := t.admins[[2]string{rbac.UserKind, user}]
	for _, group := range groups {
		if of := t.admins[[2]string{rbac.GroupKind, group}]; of != "" && (tenant == "" || of < tenant) {
			tenant = of
		}
	}
	return tenant
}

// TenantsOf are the Tenants whose admin somebody is, as they say themselves.
func (s Sources) TenantsOf(user string, groups []string) (map[string]bool, error) {
	held, err := s.Held()
	if err != nil {
		return nil, err
	}
	return held.tenantsOf(user, groups), nil
}

// tenantsOf are the Tenants whose admin somebody is.
func (h Held) tenantsOf(user string, groups []string) map[string]bool {
	out := map[string]bool{}
	for name, t := range h.Objects.Tenants {
		for _, a := range t.Admins {
			switch a.Kind {
			case rbac.GroupKind:
				out[name] = out[name] || slices.Contains(groups, a.Name)
			case rbac.ServiceAccountKind:
				out[name] = out[name] || user == "system:serviceaccount:"+a.Namespace+":"+a.Name
			default:
				out[name] = out[name] || user == a.Name
			}
		}
	}
	return out
}
