package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// patchers is how many pods are patched at once, as the controller does.
const patchers = 32

// limit is what the API server allows anybody: pods are made as in a burst, and others, as many as the controller's own writers, patch each
// once, as the controller, with the annotations that it would get. Nobody watches, and nothing is decided. The time of a pod is from when
// its creation was sent until its patch was answered.
func (b *bench) limit(ctx context.Context, count int) (harness.Series, error) {
	controller, err := b.asController()
	if err != nil {
		return harness.Series{}, err
	}
	pods := make([]lab.Pod, count)
	for i := range pods {
		pods[i] = lab.Pod{
			Key:  model.PodKey{Namespace: rawNamespace, Name: fmt.Sprintf("limit-%d-%06d", count, i)},
			Node: nodeName(i), Network: networkName(i % 10),
		}
	}
	sent, took, made := make([]time.Time, count), make([]time.Duration, count), make(chan int, count)
	start := time.Now()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(made)
		return lab.Load{Count: count, Workers: creators}.Run(running, func(ctx context.Context, i int) error {
			sent[i] = time.Now()
			if err := b.CreatePod(ctx, pods[i]); err != nil {
				return err
			}
			made <- i
			return nil
		})
	})
	for range patchers {
		group.Go(func() error {
			for i := range made {
				if err := annotate(running, controller, pods[i], i); err != nil {
					return err
				}
				took[i] = time.Since(sent[i])
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return harness.Series{}, err
	}
	return harness.NewSeries(took, time.Since(start)), b.removeRaw(ctx)
}

// asController is a client with the controller's rights, whose rate is not limited.
func (b *bench) asController() (kubernetes.Interface, error) {
	kubeconfig, err := b.Kubeconfig(lab.ControllerUser)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.ContentType = -1, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// annotate writes on a pod what the controller would.
func annotate(ctx context.Context, client kubernetes.Interface, p lab.Pod, i int) error {
	const uid = "5f2c9d0e-6f0b-4c53-9d7e-0c1a2b3c4d5e"
	low, high := byte(i), byte(i>>8)
	list := []model.Attachment{{
		PodUID: uid, Interface: model.DefaultInterface, Network: p.Network, NetworkUID: uid, Subnet: "a",
		MAC:       fmt.Sprintf("0a:58:0a:00:%02x:%02x", high, low),
		Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, high, low}), 16)},
		Gateways:  []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1})},
		Faces:     []netip.Addr{netip.AddrFrom4([4]byte{100, 64, high, low})},
	}}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		model.AnnotationAttachments:   intake.AttachmentsAnnotation(list),
		model.AnnotationAddresses:     intake.AddressesAnnotation(list),
		model.AnnotationNetworkStatus: intake.NetworkStatusAnnotation(list),
	}}})
	if err != nil {
		return err
	}
	return client.CoreV1().RESTClient().Patch(types.MergePatchType).
		Namespace(p.Key.Namespace).Resource("pods").Name(p.Key.Name).SubResource("status").
		Param("fieldManager", "bench").Param("fieldValidation", "Ignore").Body(body).
		SetHeader("Accept", runtime.ContentTypeProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		Do(ctx).Error()
}
