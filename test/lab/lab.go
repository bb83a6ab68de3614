// Package lab is what the benchmarks run the controller in: a real API server with its etcd, a real
// northbound database, and the controller as a process of its own, with the rights that it has in a cluster.
//
//	pods, Networks -> kube-apiserver -> atoll-controller -> ovsdb-server -> monitor -> when each port came and went
//
// In go the binaries (the environment that `make` sets) and the load; out come times. Nodes are names only: no
// kubelet runs. Everything lives in one temporary directory and in children that end with this process, however
// it ends.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
)

// ControllerUser and InspectUser are who the controller and atoll-inspect are in a cluster, and have their rights.
const (
	ControllerUser = "system:serviceaccount:atoll-system:atoll-controller"
	InspectUser    = "system:serviceaccount:atoll-system:atoll-inspect"
)

// withoutQuotas leaves away what a test's API server always leaves away, and two plug-ins more: with pods of 500 new
// namespaces the server took 38 ms to answer for a pod, and 5.5 ms without the two (one run each).
const withoutQuotas = "--disable-admission-plugins=ServiceAccount,LimitRanger,ResourceQuota"

// Options of a lab.
type Options struct {
	// Controller is the program, Dist the directory of the manifests.
	Controller, Dist string
	// Northd: run the southbound database and ovn-northd too.
	Northd bool
	// WithoutQuotas: the API server runs without the plug-ins LimitRanger and ResourceQuota.
	WithoutQuotas bool
}

// Lab is everything that takes part.
type Lab struct {
	// Dir is the temporary directory.
	Dir string
	// Kube speaks protobuf; its rate is not limited.
	Kube     kubernetes.Interface
	Networks dynamic.ResourceInterface
	Database *ovn.Central
	// Controller is nil until StartController.
	Controller *Child
	Ports      *Ports

	options Options
	server  *apiserver.Server
	nodes   nodes
}

// Start starts everything but the controller.
func Start(ctx context.Context, o Options) (_ *Lab, err error) {
	if _, err := os.Stat(o.Controller); err != nil {
		return nil, fmt.Errorf("find controller: %w (make build)", err)
	}
	dir, err := os.MkdirTemp("", "atoll-lab-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	l := &Lab{options: o, Dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
		}
	}()
	var args []string
	if o.WithoutQuotas {
		args = append(args, withoutQuotas)
	}
	if l.server, err = apiserver.Run(ctx, apiserver.Options{Args: args}); err != nil {
		return nil, err
	}
	if err = l.server.Establish(ctx, filepath.Join(o.Dist, "crds")); err != nil {
		return nil, err
	}
	if err = l.server.Apply(ctx, filepath.Join(o.Dist, "overlays/sandbox")); err != nil {
		return nil, err
	}
	if l.Database, err = ovn.Run(ctx, ovn.Options{Dir: dir, Northd: o.Northd}); err != nil {
		return nil, err
	}
	if l.Ports, err = watchPorts(ctx, l.Database.NBAddress()); err != nil {
		return nil, err
	}
	config := l.server.RESTConfig()
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	l.Networks = dynamicClient.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	config.ContentType = runtime.ContentTypeProtobuf
	if l.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return l, nil
}

// Stop ends everything and removes what it left. It may be called again.
func (l *Lab) Stop() error {
	var problems []error
	if l.Controller != nil {
		l.Controller.End()
	}
	if l.Ports != nil {
		l.Ports.Close()
	}
	if l.Database != nil {
		l.Database.Stop()
	}
	if l.server != nil {
		problems = append(problems, l.server.Stop())
	}
	return errors.Join(append(problems, os.RemoveAll(l.Dir))...)
}

// Configure changes the cluster's settings by a merge patch.
func (l *Lab) Configure(ctx context.Context, patch string) error {
	_, err := l.server.Kubectl(ctx, "patch", "atollconfig", v1alpha1.ConfigName, "--type=merge", "--patch="+patch)
	return err
}

// StartController runs the controller with the rights that it has in a cluster, and with further arguments.
func (l *Lab) StartController(ctx context.Context, args ...string) error {
	kubeconfig, err := l.Kubeconfig(ControllerUser)
	if err != nil {
		return err
	}
	args = append([]string{"--kubeconfig=" + kubeconfig, "--nb-address=" + l.Database.NBAddress(), "--log-level=warn"}, args...)
	l.Controller, err = StartChild(ctx, filepath.Join(l.Dir, "controller.log"), l.options.Controller, args...)
	return err
}

// Kubeconfig writes a file with which programs act as user, or as the administrator when it is empty.
func (l *Lab) Kubeconfig(user string) (string, error) {
	config, err := clientcmd.LoadFromFile(l.server.Kubeconfig())
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, u := range config.AuthInfos {
		u.Impersonate = user
	}
	path := filepath.Join(l.Dir, "kubeconfig")
	if user == "" {
		path += "-admin"
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// As is the configuration of a client that acts as the user, with the rights that RBAC gives them; its rate is not limited. The
// API server's priority and fairness treats it like the user's own.
func (l *Lab) As(user string, groups ...string) *rest.Config { return l.server.As(user, groups...) }

// KubeconfigOn writes a file with which a program acts as a ServiceAccount whose token is bound to a node.
func (l *Lab) KubeconfigOn(user, node string) (string, error) {
	config, err := clientcmd.LoadFromFile(l.server.Kubeconfig())
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, u := range config.AuthInfos {
		u.Impersonate, u.ImpersonateGroups = user, []string{
			"system:serviceaccounts", "system:serviceaccounts:atoll-system", "system:authenticated",
		}
		u.ImpersonateUserExtra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	path := filepath.Join(l.Dir, "kubeconfig-"+node)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// FreeAddress is a loopback address whose port nobody listened on a moment ago.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
