package certs

import (
	"fmt"
	"time"
)

// AuthorityEnds are when the newest CA of each authority ends, by the authority's name (atoll-ca-central), as the metric has it:
// of what ConfigMap atoll-ca holds. An authority without a bundle is left out; a bundle that cannot be read is an error.
func AuthorityEnds(data map[string]string) (map[string]time.Time, error) {
	ends := map[string]time.Time{}
	for _, kind := range kinds() {
		if data[kind.Bundle()] == "" {
			continue
		}
		all, err := readCertificates([]byte(data[kind.Bundle()]))
		if err != nil {
			return nil, fmt.Errorf("read %s of ConfigMap %s: %w", kind.Bundle(), ConfigMapName, err)
		}
		for _, c := range all {
			if c.NotAfter.After(ends[kind.Secret()]) {
				ends[kind.Secret()] = c.NotAfter
			}
		}
	}
	return ends, nil
}
