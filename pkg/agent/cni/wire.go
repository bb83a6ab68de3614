package cni

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// DefaultSocket is where the agent listens unless the network configuration names another socket.
const DefaultSocket = "/run/atoll/cni.sock"

// path is the one path that Handler serves.
const path = "/cni"

// maxRequest bounds a request, in bytes. The longest is a GC, which names every container of the node.
const maxRequest = 1 << 20

// Command is a CNI operation that reaches the agent.
type Command string

// The operations of the CNI specification 1.1, but for VERSION, which the plugin answers alone.
const (
	Add    Command = "ADD"
	Del    Command = "DEL"
	Check  Command = "CHECK"
	GC     Command = "GC"
	Status Command = "STATUS"
)

// Request is one CNI operation.
type Request struct {
	Command Command `json:"command"`
	// Attachment is the container and its interface; empty for GC and STATUS.
	Attachment
	// Netns is the path of the container's network namespace. It may be empty for DEL.
	Netns string `json:"netns,omitempty"`
	// Pod is the pod that the container belongs to, as the runtime says.
	Pod PodRef `json:"pod,omitzero"`
	// Valid is what a GC keeps.
	Valid []Attachment `json:"valid,omitempty"`
}

// Attachment names one interface of one container.
type Attachment struct {
	ContainerID string `json:"containerID,omitempty"`
	Interface   string `json:"interface,omitempty"`
}

// PodRef identifies a pod, from CNI_ARGS.
type PodRef struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Key is the pod's name without its UID.
func (p PodRef) Key() model.PodKey { return model.PodKey{Namespace: p.Namespace, Name: p.Name} }

// Response is the agent's answer: Error is nil when the operation succeeded, and only ADD has a Result.
type Response struct {
	Result *current.Result `json:"result,omitempty"`
	Error  *types.Error    `json:"error,omitempty"`
}

// Validate reports what of a request cannot be used. It looks at the form only.
func (r Request) Validate() error {
	switch r.Command {
	case GC, Status:
		return nil
	case Add, Del, Check:
	default:
		return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("unknown command %q", r.Command), "")
	}
	if err := utils.ValidateContainerID(r.ContainerID); err != nil {
		return err
	}
	if err := utils.ValidateInterfaceName(r.Interface); err != nil {
		return err
	}
	if r.Command == Del {
		return nil
	}
	if !strings.HasPrefix(r.Netns, "/") || len(r.Netns) > 4096 {
		return types.NewError(types.ErrInvalidNetNS, fmt.Sprintf("CNI_NETNS %q is not an absolute path", r.Netns), "")
	}
	for _, arg := range []struct{ name, value string }{
		{"K8S_POD_NAMESPACE", r.Pod.Namespace}, {"K8S_POD_NAME", r.Pod.Name}, {"K8S_POD_UID", r.Pod.UID},
	} {
		if arg.value == "" || len(arg.value) > 253 || strings.ContainsAny(arg.value, "/ \t\n") {
			return types.NewError(types.ErrInvalidEnvironmentVariables,
				fmt.Sprintf("CNI_ARGS: %s is missing or not a Kubernetes name; atoll serves Kubernetes pods only", arg.name), "")
		}
	}
	return nil
}

// toError gives any error the form that the specification wants.
func toError(err error) *types.Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*types.Error](err); ok {
		return known
	}
	return types.NewError(types.ErrInternal, err.Error(), "")
}
