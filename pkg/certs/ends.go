package certs

import (
	"fmt"
	"time"
)

// AuthorityEnds are when the newest CA of each authority ends, by the authority's name (atoll-ca-central), as the metric has it: of what ConfigMap atoll-ca
// holds. An authority without a bundle is left out; a bundle that cannot be read is an error.
func AuthorityEnds(data map[string]string) (map[string]time.Time, error) {
	ends := map[string]time.Time{}
	for _, kind := range kinds() {
		if data[kind.bundle()] == "" {
			continue
		}
		all, err := readCertificates([]byte(data[kind.bundle()]))
		if err != nil {
			return nil, fmt.Errorf("read %s of ConfigMap %s: %w", kind.bundle(), ConfigMapName, err)
		}
		for _, c := range all {
			if c.NotAfter.After(ends[kind.secret()]) {
				ends[kind.secret()] = c.NotAfter
			}
		}
	}
	return ends, nil
}
