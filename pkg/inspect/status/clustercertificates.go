package status

import (
	"cmp"
	"crypto/x509"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube/certs"
)

// authorityLate is how long before its end an authority should have been replaced: it is half a year before. Alert
// AtollCertificateExpires has the same.
const authorityLate = 150 * 24 * time.Hour

// late reports whether a server's certificate should have been replaced, which Atoll does at half of its 90 days: 20 days before
// its end, and of one with a shorter life when two ninths of that are left.
func late(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < min(20*24*time.Hour, c.NotAfter.Sub(c.NotBefore)*2/9)
}

// addCertificates tells of the authorities' certificates, and of those that servers of databases have shown. One that has ended
// is among the databases' problems: nobody talks to its server.
func addCertificates(s *api.ClusterStatus, f clusterFacts, problem problemOf) {
	if f.authorityError != nil {
		problem("ConfigMap/"+certs.ConfigMapName, "", "when the authorities' certificates end is not known: %v", f.authorityError)
	}
	all := map[string]api.Certificate{}
	add := func(name string, ends time.Time, late bool) {
		if before, known := all[name]; known && before.Ends.Time.Before(ends) {
			return
		}
		c := api.Certificate{Name: name, Ends: metav1.Time{Time: ends.UTC()}}
		if late {
			c.Problem = "it should have been replaced by now"
		}
		all[name] = c
	}
	for name, ends := range f.authorities {
		add(name, ends, ends.Sub(f.now) < authorityLate)
	}
	for _, d := range f.databases {
		for _, server := range d.servers {
			if c := server.Certificate; c != nil {
				add(cmp.Or(c.Subject.CommonName, server.Address), c.NotAfter, late(c, f.now))
			}
		}
	}
	s.Certificates = slices.SortedFunc(maps.Values(all), func(a, b api.Certificate) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range s.Certificates {
		if c.Problem != "" {
			problem("Certificate/"+c.Name, "docs/troubleshooting/alerts.md#atollcertificateexpires", "%s: it ends on %s", c.Problem,
				c.Ends.Format(time.DateOnly))
		}
	}
}
