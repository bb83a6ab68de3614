package inspectapi

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ownObjects returns all objects about Networks if the user may get any. Otherwise it returns those of the Tenants that the user
// administers, as far as the user may get them; objects without a Tenant are left out. The right to list is checked by the caller.
// Only objects of these Tenants need an access review: reviews for a thousand Networks would take half a minute.
func ownObjects[O any](h *handler, r request, resource string, all []O, whose func(*O) (name, tenant string)) ([]O, error) {
	every, err := h.authz.may(r.Context(), r.who, attributes{verb: "get", resource: resource})
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	if every {
		return all, nil
	}
	tenants, err := h.answers.TenantsOf(r.who.Name, r.who.Groups)
	if err != nil {
		return nil, err
	}
	var names []string
	all = slices.DeleteFunc(all, func(o O) bool {
		name, tenant := whose(&o)
		if tenant == "" || !tenants[tenant] {
			return true
		}
		names = append(names, name)
		return false
	})
	may, err := h.authz.which(r.Context(), r.who, resource, names)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return slices.DeleteFunc(all, func(o O) bool { name, _ := whose(&o); return !may[name] }), nil
}
