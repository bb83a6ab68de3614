package cni

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

const podArguments = "IgnoreUnknown=1;K8S_POD_NAMESPACE=red;K8S_POD_NAME=one;K8S_POD_UID=uid-1;K8S_POD_INFRA_CONTAINER_ID=c1"

func TestParse(t *testing.T) {
	t.Parallel()
	pod := PodRef{Namespace: "red", Name: "one", UID: "uid-1"}
	at := Attachment{ContainerID: "c1", Interface: "eth0"}
	for _, test := range []struct {
		name    string
		command Command
		args    skel.CmdArgs
		want    Request
		code    uint
	}{
		{
			name: "add", command: Add,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "eth0", Netns: "/run/netns/a", Args: podArguments},
			want: Request{Command: Add, Attachment: at, Netns: "/run/netns/a", Pod: pod},
		},
		{
			name: "an argument nobody knows, without IgnoreUnknown", command: Add,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "eth0", Netns: "/n", Args: "X=1;" + strings.TrimPrefix(podArguments, "IgnoreUnknown=1;")},
			want: Request{Command: Add, Attachment: at, Netns: "/n", Pod: pod},
		},
		{
			name: "del of a container whose namespace has gone", command: Del,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "eth0"},
			want: Request{Command: Del, Attachment: at},
		},
		{
			name: "gc", command: GC,
			args: skel.CmdArgs{StdinData: []byte(`{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}`)},
			want: Request{Command: GC, Valid: []Attachment{at}},
		},
		{
			name: "no pod", command: Add, code: types.ErrInvalidEnvironmentVariables,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "eth0", Netns: "/n"},
		},
		{
			name: "a pod name with a slash", command: Add, code: types.ErrInvalidEnvironmentVariables,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "eth0", Netns: "/n", Args: "K8S_POD_NAMESPACE=red;K8S_POD_NAME=../one;K8S_POD_UID=u"},
		},
		{
			name: "a relative namespace", command: Add, code: types.ErrInvalidNetNS,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "eth0", Netns: "netns", Args: podArguments},
		},
		{
			name: "an interface name that is a path", command: Del, code: types.ErrInvalidEnvironmentVariables,
			args: skel.CmdArgs{ContainerID: "c1", IfName: "../eth0"},
		},
		{
			name: "configuration that is not JSON", command: Status, code: types.ErrDecodingFailure,
			args: skel.CmdArgs{StdinData: []byte("cniVersion")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.args.StdinData == nil {
				test.args.StdinData = []byte("{}")
			}
			got, conf, err := parse(test.command, &test.args)
			if code := codeOf(err); code != test.code {
				t.Fatalf("error %v (code %d), want code %d", err, code, test.code)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if conf.Socket != DefaultSocket {
				t.Errorf("socket %q", conf.Socket)
			}
		})
	}
}

// codeOf is the code of an error as a runtime would see it; 0 for none.
func codeOf(err error) uint {
	if known, ok := errors.AsType[*types.Error](err); ok {
		return known.Code
	}
	if err != nil {
		return types.ErrInternal
	}
	return 0
}

// FuzzParse: whatever the environment holds, what passes names one pod and one interface.
func FuzzParse(f *testing.F) {
	f.Add("c1", "eth0", "/run/netns/a", podArguments, []byte(`{"socket":"/x"}`))
	f.Add("", "..", "", "K8S_POD_NAME=a=b;;", []byte(`[]`))
	f.Fuzz(func(t *testing.T, container, iface, netns, args string, conf []byte) {
		request, _, err := parse(Add, &skel.CmdArgs{
			ContainerID: container, IfName: iface, Netns: netns, Args: args, StdinData: conf,
		})
		if err != nil {
			return
		}
		key := request.Pod.Key().String()
		if strings.Count(key, "/") != 1 || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") {
			t.Errorf("pod %q passed", key)
		}
		if len(iface) > 15 || strings.ContainsAny(iface, "/: ") || container == "" {
			t.Errorf("attachment %s passed", fmt.Sprint(request.Attachment))
		}
	})
}
