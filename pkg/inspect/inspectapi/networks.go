package inspectapi

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// his are all objects about Networks if who asks may get any, else those of the Tenants whose admin he is that he may get. The right to list them is the
// right to ask which these are. Kubernetes is not asked about each Network that there is: for a thousand it would take half a minute. What belongs to no
// Tenant is for who may get any.
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

// found is an answer about one, or that there is none.
func found[O any](resource, name string, o O, there bool, err error) (any, error) {
	if err == nil && !there {
		err = apierrors.NewNotFound(groupResource(resource), name)
	}
	return o, err
}

func (h *handler) ipams(r request) (any, error) {
	all, err := h.answers.IPAMs(r.Context())
	if err != nil {
		return nil, err
	}
	all, err = his(h, r, api.ResourceIPAMs, all, func(i *api.IPAM) (string, string) { return i.Name, i.Status.Tenant })
	return api.IPAMList{TypeMeta: typeOf("IPAMList"), Items: all}, err
}

func (h *handler) ipam(r request) (any, error) {
	i, there, err := h.answers.IPAM(r.Context(), r.PathValue("name"))
	return found(api.ResourceIPAMs, r.PathValue("name"), i, there, err)
}

func (h *handler) ipamChecks(r request) (any, error) {
	var all []api.IPAMCheck
	err := h.working(r, func() (err error) {
		all, err = h.answers.IPAMChecks(r.Context())
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err = his(h, r, api.ResourceIPAMChecks, all, func(i *api.IPAMCheck) (string, string) { return i.Name, i.Status.Tenant })
	return api.IPAMCheckList{TypeMeta: typeOf("IPAMCheckList"), Items: all}, err
}

func (h *handler) ipamCheck(r request) (any, error) {
	var (
		i     api.IPAMCheck
		there bool
	)
	err := h.working(r, func() (err error) {
		i, there, err = h.answers.IPAMCheck(r.Context(), r.PathValue("name"))
		return err
	})
	return found(api.ResourceIPAMChecks, r.PathValue("name"), i, there, err)
}

func (h *handler) topologies(r request) (any, error) {
	all, err := h.answers.Topologies(r.Context())
	if err != nil {
		return nil, err
	}
	all, err = his(h, r, api.ResourceTopologies, all, func(t *api.Topology) (string, string) { return t.Name, t.Status.Tenant })
	return api.TopologyList{TypeMeta: typeOf("TopologyList"), Items: all}, err
}

func (h *handler) topology(r request) (any, error) {
	t, there, err := h.answers.Topology(r.Context(), r.PathValue("name"))
	return found(api.ResourceTopologies, r.PathValue("name"), t, there, err)
}
