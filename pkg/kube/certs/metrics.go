package certs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var expiryDesc = prometheus.NewDesc("atoll_certificate_expiry_seconds",
	"When a certificate ends, in seconds since 1970 (UTC): the process's own, and the authorities' that sign.", []string{"name"}, nil)

// Expiry is the metric of when a certificate ends.
func Expiry(name string, end time.Time) prometheus.Metric {
	return prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(end.Unix()), name)
}
