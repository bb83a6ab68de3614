package cni

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// netConf is what atoll-cni reads of its network configuration.
type netConf struct {
	CNIVersion string               `json:"cniVersion"`
	Socket     string               `json:"socket"`
	Valid      []types.GCAttachment `json:"cni.dev/valid-attachments"`
}

// podArgs are the CNI_ARGS that Kubernetes' runtimes give.
type podArgs struct {
	types.CommonArgs
	K8S_POD_NAMESPACE types.UnmarshallableString
	K8S_POD_NAME      types.UnmarshallableString
	K8S_POD_UID       types.UnmarshallableString
}

// parse turns what the runtime gave the plugin into a request and the configuration to send it by.
func parse(command Command, args *skel.CmdArgs) (Request, netConf, error) {
	conf := netConf{}
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return Request{}, conf, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("read network configuration: %v", err), "")
	}
	if conf.Socket == "" {
		conf.Socket = DefaultSocket
	}
	request := Request{Command: command}
	switch command {
	case Status:
	case GC:
		request.Valid = make([]Attachment, 0, len(conf.Valid))
		for _, a := range conf.Valid {
			request.Valid = append(request.Valid, Attachment{ContainerID: a.ContainerID, Interface: a.IfName})
		}
	default:
		// A runtime may give arguments that this plugin does not know, whatever IgnoreUnknown says.
		pod := podArgs{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
		if err := types.LoadArgs(args.Args, &pod); err != nil {
			return Request{}, conf, types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("read CNI_ARGS: %v", err), "")
		}
		request.Attachment = Attachment{ContainerID: args.ContainerID, Interface: args.IfName}
		request.Netns = args.Netns
		request.Pod = PodRef{
			Namespace: string(pod.K8S_POD_NAMESPACE),
			Name:      string(pod.K8S_POD_NAME),
			UID:       string(pod.K8S_POD_UID),
		}
	}
	return request, conf, request.Validate()
}
