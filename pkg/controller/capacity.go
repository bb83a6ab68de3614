package controller

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxRanges bounds how many ranges of subnets metrics tell of, the fullest ones: there may be tens of thousands.
	maxRanges = 1000
	// capacityTime is how long the engine may take to answer.
	capacityTime = 2 * time.Second
)

// Capacity is what is left, and who did not get any.
type Capacity struct {
	Ranges []RangeCapacity
	Nodes  []NodeCapacity
	// Refused counts pods without a port, by the reason.
	Refused map[string]int
}

// RangeCapacity counts the addresses of one range of a subnet.
type RangeCapacity struct {
	Network, Subnet, CIDR string
	Used, Free            int64
}

// NodeCapacity counts the faces of a node of one range.
type NodeCapacity struct {
	Node, CIDR string
	Used, Free int64
}

// Capacity counts what is left.
func (s *State) Capacity() Capacity {
	c := Capacity{Refused: map[string]int{}}
	for _, n := range s.networks {
		for _, subnet := range n.layout.Subnets {
			for _, pool := range n.pools[subnet.Name] {
				c.Ranges = append(c.Ranges, RangeCapacity{n.name, subnet.Name, pool.Prefix().String(), pool.Used(), pool.Free()})
			}
		}
	}
	slices.SortFunc(c.Ranges, func(a, b RangeCapacity) int {
		return cmp.Or(cmp.Compare(a.Free, b.Free), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Subnet, b.Subnet), cmp.Compare(a.CIDR, b.CIDR))
	})
	c.Ranges = c.Ranges[:min(len(c.Ranges), maxRanges)]
	for _, n := range s.nodes {
		for _, pool := range n.faces {
			c.Nodes = append(c.Nodes, NodeCapacity{n.name, pool.Prefix().String(), pool.Used(), pool.Free()})
		}
	}
	for _, p := range s.pods {
		if p.problem != nil {
			c.Refused[p.problem.Reason]++
		}
	}
	return c
}

// Capacity asks the engine's goroutine; false when it has no time.
func (e *Engine) Capacity(ctx context.Context) (Capacity, bool) {
	ctx, cancel := context.WithTimeout(ctx, capacityTime)
	defer cancel()
	reply := make(chan Capacity, 1)
	select {
	case e.asked <- reply:
	case <-ctx.Done():
		return Capacity{}, false
	}
	select {
	case c := <-reply:
		return c, true
	case <-ctx.Done():
		return Capacity{}, false
	}
}

// capacityCollector tells of the engine that this process runs, if it leads.
type capacityCollector struct {
	engine                                   func() *Engine
	leads, used, free, facesUsed, faces, pod *prometheus.Desc
}

// NewCapacityCollector makes metrics of what engine gives; it gives nil while this process does not lead.
func NewCapacityCollector(engine func() *Engine) prometheus.Collector {
	ranges, nodes := []string{"network", "subnet", "cidr"}, []string{"node", "cidr"}
	return &capacityCollector{
		engine:    engine,
		leads:     prometheus.NewDesc("atoll_controller_leader", "1 while this process leads; only then it tells of capacity.", nil, nil),
		used:      prometheus.NewDesc("atoll_subnet_addresses_used", "Addresses of a range of a subnet that are held; of the 1000 ranges that have the fewest left.", ranges, nil),
		free:      prometheus.NewDesc("atoll_subnet_addresses_free", "Addresses of a range of a subnet that pods can still get; of the 1000 ranges that have the fewest left.", ranges, nil),
		facesUsed: prometheus.NewDesc("atoll_node_faces_used", "Faces of a node that its pods hold.", nodes, nil),
		faces:     prometheus.NewDesc("atoll_node_faces_free", "Faces of a node that its pods can still get.", nodes, nil),
		pod:       prometheus.NewDesc("atoll_pods_refused", "Pods that have no port because they may not have one, or none can be had; by the reason of their Events.", []string{"reason"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *capacityCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leads, c.used, c.free, c.facesUsed, c.faces, c.pod} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *capacityCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	engine := c.engine()
	if engine == nil {
		gauge(c.leads, 0)
		return
	}
	gauge(c.leads, 1)
	capacity, known := engine.Capacity(context.Background())
	if !known {
		return
	}
	for _, r := range capacity.Ranges {
		gauge(c.used, float64(r.Used), r.Network, r.Subnet, r.CIDR)
		gauge(c.free, float64(r.Free), r.Network, r.Subnet, r.CIDR)
	}
	for _, n := range capacity.Nodes {
		gauge(c.facesUsed, float64(n.Used), n.Node, n.CIDR)
		gauge(c.faces, float64(n.Free), n.Node, n.CIDR)
	}
	for reason, pods := range capacity.Refused {
		gauge(c.pod, float64(pods), reason)
	}
}
