package nri

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestOwnEnvironment(t *testing.T) {
	for _, test := range []struct {
		name        string
		environment []string
		want        []*api.KeyValue
	}{
		{"face", []string{"POD_IP=100.64.1.5", "HOME=/"}, []*api.KeyValue{{Key: "POD_IP", Value: "100.64.9.9"}}},
		{"a value with equals signs", []string{"OPTS=-a=100.64.1.5 -b=c"}, []*api.KeyValue{{Key: "OPTS", Value: "-a=100.64.9.9 -b=c"}}},
		{"the node's address stays", []string{"HOST_IP=192.0.2.1"}, nil},
		{"a name is not a value", []string{"100.64.1.5=x"}, nil},
		{"a name that NRI takes for a removal", []string{"-PATH=100.64.1.5"}, nil},
		{"no name", []string{"=100.64.1.5", ""}, nil},
		{"no value", []string{"100.64.1.5"}, nil},
		{"a name twice", []string{"A=x", "A=100.64.1.5", "B=100.64.1.5"}, []*api.KeyValue{{Key: "B", Value: "100.64.9.9"}}},
		{"none", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ownEnvironment(test.environment, newReplacer(testPairs()))
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" && len(test.want)+len(got) > 0 {
				t.Errorf("ownEnvironment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnArguments(t *testing.T) {
	given := []string{"etcd", "--name=a", "--listen=http://100.64.1.5:2380"}
	got := ownArguments(given, newReplacer(testPairs()))
	if diff := cmp.Diff([]string{"etcd", "--name=a", "--listen=http://100.64.9.9:2380"}, got); diff != "" {
		t.Errorf("ownArguments (-want +got):\n%s", diff)
	}
	if given[2] != "--listen=http://100.64.1.5:2380" {
		t.Errorf("the given arguments were changed: %q", given)
	}
	if got := ownArguments([]string{"etcd", "--name=a"}, newReplacer(testPairs())); got != nil {
		t.Errorf("ownArguments without a face = %q, want none", got)
	}
}

func TestKubeletHosts(t *testing.T) {
	const uid = "5d9c"
	file := func(source, destination string) []*api.Mount {
		return []*api.Mount{{Source: "/x", Destination: "/y"}, {Source: source, Destination: destination}}
	}
	for _, test := range []struct {
		name   string
		mounts []*api.Mount
		uid    string
		want   bool
	}{
		{"kubelet's", file("/var/lib/kubelet/pods/5d9c/etc-hosts", "/etc/hosts"), uid, true},
		{"the user's own", file("/var/lib/kubelet/pods/5d9c/volumes/x/hosts", "/etc/hosts"), uid, false},
		{"another pod's", file("/var/lib/kubelet/pods/77aa/etc-hosts", "/etc/hosts"), uid, false},
		{"another place in the container", file("/var/lib/kubelet/pods/5d9c/etc-hosts", "/mnt/hosts"), uid, false},
		{"a UID that leads elsewhere", file("/etc/etc-hosts", "/etc/hosts"), "../../../../etc", false},
		{"none", nil, uid, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, got := kubeletHosts(test.mounts, "/var/lib/kubelet", test.uid); got != test.want {
				t.Errorf("kubeletHosts = %v, want %v", got, test.want)
			}
		})
	}
}

func TestAdjustmentTakesBackFirst(t *testing.T) {
	mount := withSource(&api.Mount{Destination: "/etc/hosts", Type: "bind", Options: []string{"rbind", "rw"}, Source: "/old"}, "/new")
	got := adjustment([]*api.KeyValue{{Key: "A", Value: "1"}}, []string{"prog"}, mount)
	want := &api.ContainerAdjustment{
		Env:  []*api.KeyValue{{Key: "-A"}, {Key: "A", Value: "1"}},
		Args: []string{"", "prog"},
		Mounts: []*api.Mount{
			{Destination: "-/etc/hosts"},
			{Destination: "/etc/hosts", Type: "bind", Options: []string{"rbind", "rw"}, Source: "/new"},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("adjustment (-want +got):\n%s", diff)
	}
	if got := adjustment(nil, nil, nil); got != nil {
		t.Errorf("adjustment of nothing = %v, want nil", got)
	}
}

// FuzzOwnEnvironment: whatever a tenant names its variables, NRI is asked to change some of its own variables and to
// remove none, and each has no face afterwards.
func FuzzOwnEnvironment(f *testing.F) {
	f.Add("POD_IP", "100.64.1.5", "-X")
	f.Fuzz(func(t *testing.T, name, value, other string) {
		r := newReplacer(testPairs())
		environment := []string{name + "=" + value, other + "=100.64.1.5"}
		for _, v := range ownEnvironment(environment, r) {
			if key, removal := v.IsMarkedForRemoval(); removal || key == "" {
				t.Errorf("%q asks for the removal of %q", environment, v.Key)
			}
			found := false
			for _, given := range environment {
				key, was, _ := strings.Cut(given, "=")
				found = found || key == v.Key && r.replace(was) == v.Value
			}
			if !found {
				t.Errorf("%q makes a variable %q", environment, v.Key)
			}
		}
	})
}
