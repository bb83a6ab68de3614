package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/apiserver"
	"github.com/atoll-net/atoll/test/ovn"
)

// controllerUser is who the controller is in a cluster, and has its rights.
const controllerUser = "system:serviceaccount:atoll-system:atoll-controller"

// lab is everything that takes part.
type lab struct {
	o          options
	dir        string
	server     *apiserver.Server
	kube       kubernetes.Interface
	networks   dynamic.ResourceInterface
	database   *ovn.Central
	controller *child
	ports      *ports
	// namesOfNetworks are the Networks that pods are spread over.
	namesOfNetworks []string
	made            int
}

func startLab(ctx context.Context, o options) (_ *lab, err error) {
	if _, err := os.Stat(o.controller); err != nil {
		return nil, fmt.Errorf("find controller: %w (make build)", err)
	}
	dir, err := os.MkdirTemp("", "atoll-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	l := &lab{o: o, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.stop())
		}
	}()
	if l.server, err = apiserver.Run(ctx, apiserver.Options{}); err != nil {
		return nil, err
	}
	if err = l.server.Establish(ctx, filepath.Join(o.dist, "crds")); err != nil {
		return nil, err
	}
	if err = l.server.Apply(ctx, filepath.Join(o.dist, "sandbox")); err != nil {
		return nil, err
	}
	if l.database, err = ovn.Run(ctx, ovn.Options{Dir: dir}); err != nil {
		return nil, err
	}
	if l.ports, err = watchPorts(ctx, l.database.NBAddress()); err != nil {
		return nil, err
	}
	config := l.server.RESTConfig()
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	l.networks = dynamicClient.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	config.ContentType = runtime.ContentTypeProtobuf
	if l.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return l, nil
}

// stop ends everything and removes what it left.
func (l *lab) stop() error {
	var problems []error
	if l.controller != nil {
		l.controller.end()
	}
	if l.ports != nil {
		l.ports.close()
	}
	if l.database != nil {
		l.database.Stop()
	}
	if l.server != nil {
		problems = append(problems, l.server.Stop())
	}
	return errors.Join(append(problems, os.RemoveAll(l.dir))...)
}

// startController runs the controller with the rights that it has in a cluster.
func (l *lab) startController(ctx context.Context) error {
	config, err := clientcmd.LoadFromFile(l.server.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = controllerUser
	}
	kubeconfig := filepath.Join(l.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	l.controller, err = startChild(ctx, filepath.Join(l.dir, "controller.log"), l.o.controller,
		"--kubeconfig="+kubeconfig, "--nb-address="+l.database.NBAddress(), "--metrics-address=", "--log-level=warn")
	return err
}

// createNetworks makes Networks and waits until pods may attach to them.
func (l *lab) createNetworks(ctx context.Context, n int) error {
	for i := range n {
		name := fmt.Sprintf("bench-%d", i)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Network{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Network"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.NetworkSpec{
				Type:    v1alpha1.NetworkVPC,
				Subnets: []v1alpha1.Subnet{{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}}},
			},
		})
		if err != nil {
			return err
		}
		body, err := runtimeJSON(object)
		if err != nil {
			return err
		}
		if _, err := l.networks.Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "bench"}); err != nil {
			return err
		}
		l.namesOfNetworks = append(l.namesOfNetworks, name)
	}
	for _, name := range l.namesOfNetworks {
		if err := l.awaitReady(ctx, name); err != nil {
			return fmt.Errorf("wait for Network %s: %w", name, err)
		}
	}
	return nil
}

// awaitReady watches a Network until its phase is Ready.
func (l *lab) awaitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w, err := l.networks.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return errors.New("the watch ended")
			}
			if phaseOf(e.Object) == string(v1alpha1.NetworkReady) {
				return nil
			}
		case <-l.controller.done:
			return l.controller.ended()
		}
	}
}

// restart measures how long pods wait when the controller is started again: from its start to the row of a
// pod that was made while it was away.
func (l *lab) restart(ctx context.Context) (float64, error) {
	l.controller.end()
	start := time.Now()
	if err := l.startController(ctx); err != nil {
		return 0, err
	}
	if _, err := l.apply(ctx, load{pods: 1, creators: 1}); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds(), nil
}
