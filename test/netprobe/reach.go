package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// reachPatience bounds one look-up, or the listing of pods.
const reachPatience = 10 * time.Second

// runResolve looks names up as any program of the pod does, with the search path of its resolv.conf, and prints what
// each of them is. A name that does not exist is an answer; no answer is an error.
func runResolve(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want names")
	}
	answers := make([]wire.Name, 0, len(args))
	for _, name := range args {
		ctx, cancel := context.WithTimeout(ctx, reachPatience)
		// Go's own resolver says whether a name does not exist or nobody answered.
		found, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name)
		cancel()
		answer := wire.Name{Name: name}
		for _, a := range found {
			answer.Addresses = append(answer.Addresses, a.Unmap())
		}
		slices.SortFunc(answer.Addresses, netip.Addr.Compare)
		if missing, ok := errors.AsType[*net.DNSError](err); err != nil && (!ok || !missing.IsNotFound) {
			answer.Error = err.Error()
		}
		answers = append(answers, answer)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// runAPI lists the pods of its own namespace with an in-cluster client as every program has it, and prints their names.
func runAPI(ctx context.Context, _ []string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("read in-cluster configuration: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	const file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	namespace, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read own namespace: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	list, err := client.CoreV1().Pods(strings.TrimSpace(string(namespace))).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods of %s at %s: %w", namespace, config.Host, err)
	}
	names := make([]string, 0, len(list.Items))
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return json.NewEncoder(os.Stdout).Encode(names)
}
