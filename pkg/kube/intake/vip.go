package intake

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Bounds on a Service's annotations, in bytes.
const (
	maxServiceIPs       = 256
	maxServiceAddresses = 1 << 10
)

// serviceIPs reads AnnotationServiceIPs. Its errors are for the Service's owner.
func serviceIPs(text string) ([]netip.Addr, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxServiceIPs {
		return nil, fmt.Errorf("%d bytes; at most %d are read", len(text), maxServiceIPs)
	}
	var out []netip.Addr
	var have families
	for part := range strings.SplitSeq(text, ",") {
		a, err := parseAddr(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if !have.first(a) {
			return nil, fmt.Errorf("%s is a second %s address; a Service has one", a, familyName(a))
		}
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out, nil
}

// ServiceAddresses reads AnnotationServiceAddresses of the Service with that UID; nil when there is none that can be used.
func ServiceAddresses(text, uid string) *model.ServiceAddresses {
	if text == "" || len(text) > maxServiceAddresses {
		return nil
	}
	var a model.ServiceAddresses
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.ServiceUID != uid || (len(a.Addresses) == 0) != a.Refused {
		return nil
	}
	var have families
	for _, address := range a.Addresses {
		if !usable(address) || !have.first(address) {
			return nil
		}
	}
	return &a
}

// ServiceAddressesAnnotation is the text of AnnotationServiceAddresses.
func ServiceAddressesAnnotation(a model.ServiceAddresses) string { return jsonOf(a) }
