package inspectapi

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// his are all objects about Networks if who asks may get any, else those of the Tenants whose admin he is that he may get. The
// right to list them is the right to ask which these are. Kubernetes is not asked about each Network that there is: for a
// thousand it would take half a minute. What belongs to no Tenant is for who may get any.
func his[O any](h *handler, r request, resource string, all []O, whose func(*O) (name, tenant string)) ([]O, error) {
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
