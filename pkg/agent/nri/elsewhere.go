package nri

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// resolverFile is where a container finds who answers for names, and resolverName what runtimes call that file of a pod's.
const (
	resolverFile = "/etc/resolv.conf"
	resolverName = "resolv.conf"
)

// apiName is a name that every API server's certificate has, and that leads to an address which the pod can dial. Programs that
// are told an address would look for that in the certificate.
const apiName = "kubernetes.default.svc"

// Elsewhere is what kubelet tells containers of the cluster by addresses that their pod cannot dial, because it has none of the
// family, and where it is instead. The zero value changes nothing.
type Elsewhere struct {
	// Resolver answers for names instead of Resolvers.
	Resolver  netip.Addr
	Resolvers []netip.Addr
	// API is the address of the Kubernetes API by which variables name it.
	API netip.Addr
}

// environment are the variables by which programs find the Kubernetes API, with its name in place of the address.
func (e Elsewhere) environment(environment []string) []*api.KeyValue {
	if !e.API.IsValid() {
		return nil
	}
	r := replacer{{face: e.API.String(), own: apiName, ipv4: e.API.Is4()}}
	return ownEnvironment(slices.DeleteFunc(slices.Clone(environment), func(v string) bool { return !strings.HasPrefix(v, "KUBERNETES_") }), r)
}

// resolvConf is a resolv.conf(5) with the one resolver in place of the others. What else it says stays.
func (e Elsewhere) resolvConf(content string) string {
	var out strings.Builder
	told := false
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[0] != "nameserver" {
			out.WriteString(line)
			continue
		}
		address, err := netip.ParseAddr(fields[1])
		instead := err == nil && slices.Contains(e.Resolvers, address)
		if !instead && address != e.Resolver {
			out.WriteString(line)
			continue
		}
		if !told {
			out.WriteString("nameserver " + e.Resolver.String() + "\n")
		}
		told = true
	}
	return out.String()
}

// runtimesResolver finds the mount of the file that the runtime made for a pod. One that the user put there is none: it lies in
// kubelet's directory.
func runtimesResolver(mounts []*api.Mount, kubeletDir string) (*api.Mount, bool) {
	i := slices.IndexFunc(mounts, func(m *api.Mount) bool {
		source := filepath.Clean(m.GetSource())
		return filepath.Clean(m.GetDestination()) == resolverFile && filepath.Base(source) == resolverName &&
			!strings.HasPrefix(source, filepath.Clean(kubeletDir)+"/")
	})
	if i < 0 {
		return nil, false
	}
	return mounts[i], true
}

// ownResolver writes a pod's own resolv.conf and returns the mount of it, or nil when the container has not the runtime's, or that says
// what it should.
func (p *Plugin) ownResolver(c *api.Container, known Known) (*api.Mount, error) {
	mount, has := runtimesResolver(c.GetMounts(), p.config.KubeletDir)
	if p.hosts == nil || !has || len(known.Elsewhere.Resolvers) == 0 {
		return nil, nil
	}
	content, err := readFile(mount.GetSource())
	if err != nil {
		return nil, err
	}
	own := known.Elsewhere.resolvConf(content)
	if own == content {
		return nil, nil
	}
	file, err := p.hosts.Write(known.UID, resolverName, own, mount.GetSource())
	if err != nil {
		return nil, err
	}
	return withSource(mount, file), nil
}
