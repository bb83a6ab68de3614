package controller

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// capacityTime is how long the engine may take to answer.
const capacityTime = 2 * time.Second

// capacityCollector tells of the engine that this process runs, if it leads.
type capacityCollector struct {
	engine                                   func() *Controller
	leads, used, free, facesUsed, faces, pod *prometheus.Desc
	joined                                   *prometheus.Desc
}

// NewCapacityCollector makes metrics of what engine gives; it gives nil while this process does not lead.
func NewCapacityCollector(engine func() *Controller) prometheus.Collector {
	ranges, nodes := []string{"network", "subnet", "cidr"}, []string{"node", "cidr"}
	return &capacityCollector{
		engine: engine,
		leads:  prometheus.NewDesc("atoll_controller_leader", "1 while this process leads; only then it tells of capacity.", nil, nil),
		used: prometheus.NewDesc("atoll_subnet_addresses_used",
			"Addresses of a range of a subnet that are held; of the 1000 ranges that have the fewest left.", ranges, nil),
		free: prometheus.NewDesc("atoll_subnet_addresses_free",
			"Addresses of a range of a subnet that pods can still get; of the 1000 ranges that have the fewest left.", ranges, nil),
		facesUsed: prometheus.NewDesc("atoll_node_faces_used", "Faces of a node that its pods hold.", nodes, nil),
		faces:     prometheus.NewDesc("atoll_node_faces_free", "Faces of a node that its pods can still get.", nodes, nil),
		pod: prometheus.NewDesc("atoll_pods_refused",
			"Pods that have no port because they may not have one, or none can be had; by the reason of their Events.", []string{"reason"}, nil),
		joined: prometheus.NewDesc("atoll_networks_joined",
			"Networks of the largest set that mode Routed joins, directly and by others; 0 when none are.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *capacityCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leads, c.used, c.free, c.facesUsed, c.faces, c.pod, c.joined} {
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
	gauge(c.joined, float64(capacity.Joined))
	for reason, pods := range capacity.Refused {
		gauge(c.pod, float64(pods), reason)
	}
}
