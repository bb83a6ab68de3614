package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// names is what a Network's DNS server takes in the agent when nobody asks it.
type names struct {
	Servers    int     `json:"servers"`
	Heap       float64 `json:"heapKiB"` // with stacks
	Goroutines float64 `json:"goroutines"`
}

// servers is how many are started, and serverPort where each listens, at a loopback address of its own.
const (
	servers    = 100
	serverPort = 20053
)

// namesAlone starts servers as the agent does, in this process, in whose network namespace they listen.
func namesAlone(ctx context.Context) (out names, err error) {
	metrics, err := dns.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return out, err
	}
	node := dns.NewNode(dns.Config{
		Directory: dns.NewDirectory("cluster.local", nil, compatible.Settings{}), Resolvers: dns.NewResolvers("/etc/resolv.conf", nil),
		Metrics: metrics, Log: slog.New(slog.DiscardHandler),
	})
	defer node.Close()
	out.Servers = servers
	heap, goroutines := used(), runtime.NumGoroutine()
	for i := range servers {
		name := fmt.Sprintf("alone-%d", i)
		at := netip.AddrFrom4([4]byte{127, 77, 0, byte(1 + i)})
		network := &model.Network{Name: name, UID: name, Type: model.VPC, Egress: model.EgressNode}
		if err := node.Serve(ctx, name, network, dns.Place{Addresses: []netip.AddrPort{netip.AddrPortFrom(at, serverPort)}}); err != nil {
			return out, err
		}
	}
	out.Heap = (used() - heap) / servers / 1024
	out.Goroutines = float64(runtime.NumGoroutine()-goroutines) / servers
	return out, nil
}

// used is what this process holds in live objects and stacks, in bytes.
func used() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
