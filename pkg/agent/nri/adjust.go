package nri

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// hostsFile is where a container finds its hosts file, and hostsName what kubelet calls the pod's.
const (
	hostsFile = "/etc/hosts"
	hostsName = "etc-hosts"
)

// ownEnvironment returns the variables of an environment that hold a face, with own addresses. Left alone are names
// that NRI cannot change: it takes one that begins with a dash for a removal, and knows only one of each name.
func ownEnvironment(environment []string, r replacer) []*api.KeyValue {
	count := make(map[string]int, len(environment))
	var changed []*api.KeyValue
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		count[name]++
		if own := r.replace(value); own != value && !strings.HasPrefix(name, "-") && name != "" {
			changed = append(changed, &api.KeyValue{Key: name, Value: own})
		}
	}
	return slices.DeleteFunc(changed, func(v *api.KeyValue) bool { return count[v.Key] > 1 })
}

// ownArguments returns a command line with own addresses, or nil when it holds no face.
func ownArguments(arguments []string, r replacer) []string {
	var own []string
	for i, argument := range arguments {
		if replaced := r.replace(argument); replaced != argument {
			if own == nil {
				own = slices.Clone(arguments)
			}
			own[i] = replaced
		}
	}
	return own
}

// kubeletHosts finds the mount of the hosts file that kubelet made for a pod. One that the user put there is none.
func kubeletHosts(mounts []*api.Mount, kubeletDir, podUID string) (*api.Mount, bool) {
	file := filepath.Join(kubeletDir, "pods", podUID, hostsName)
	i := slices.IndexFunc(mounts, func(m *api.Mount) bool {
		return filepath.Clean(m.GetDestination()) == hostsFile && filepath.Clean(m.GetSource()) == file
	})
	if i < 0 || !isName(podUID) {
		return nil, false
	}
	return mounts[i], true
}

// withSource is a mount of another file at the same place and in the same way.
func withSource(m *api.Mount, source string) *api.Mount {
	return &api.Mount{Destination: m.GetDestination(), Type: m.GetType(), Options: slices.Clone(m.GetOptions()), Source: source}
}

// adjustment puts changes into the form in which the runtime takes them; nil when there are none. Each takes back
// first what another plugin changed of the same thing: two plugins that change one thing would else keep the container
// from being made.
func adjustment(environment []*api.KeyValue, arguments []string, files ...*api.Mount) *api.ContainerAdjustment {
	files = slices.DeleteFunc(files, func(m *api.Mount) bool { return m == nil })
	if len(environment) == 0 && arguments == nil && len(files) == 0 {
		return nil
	}
	a := &api.ContainerAdjustment{}
	for _, variable := range environment {
		a.RemoveEnv(variable.Key)
		a.AddEnv(variable.Key, variable.Value)
	}
	if arguments != nil {
		a.UpdateArgs(arguments)
	}
	for _, file := range files {
		a.RemoveMount(file.Destination)
		a.AddMount(file)
	}
	return a
}

// isName reports whether a text can be the name of one file and nothing else.
func isName(text string) bool {
	return text != "" && text != "." && text != ".." && len(text) <= 255 && !strings.ContainsAny(text, "/\x00")
}
