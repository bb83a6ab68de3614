package question

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// End is one end of a connection: one of its fields is set.
type End struct {
	Pod     model.PodKey
	Service model.ServiceKey
	Address netip.Addr
	// Node is a node's name, Name one that the DNS knows, Outside: no more than outside of the cluster. A trace knows none of them.
	Node, Name string
	Outside    bool
}

func (e End) String() string {
	switch {
	case e.Address.IsValid():
		return e.Address.String()
	case e.Service != (model.ServiceKey{}):
		return "svc/" + e.Service.String()
	case e.Node != "":
		return "node/" + e.Node
	case e.Name != "":
		return e.Name
	case e.Outside:
		return OutsideWord
	}
	return e.Pod.String()
}

// ParseEnd reads an end as people write it: NAMESPACE/POD, svc/NAMESPACE/NAME or an address.
func ParseEnd(text string) (End, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Is4In6() || a.Zone() != "" {
			return End{}, fmt.Errorf("%s: write an IPv4 address as IPv4, and one of IPv6 without a zone", text)
		}
		return End{Address: a}, nil
	}
	words := strings.Split(text, "/")
	switch {
	case slices.Contains(words, ""):
	case len(words) == 2:
		return End{Pod: model.PodKey{Namespace: words[0], Name: words[1]}}, nil
	case len(words) == 3 && slices.Contains([]string{"svc", "service"}, words[0]):
		return End{Service: model.ServiceKey{Namespace: words[1], Name: words[2]}}, nil
	case len(words) == 3 && slices.Contains([]string{"po", "pod"}, words[0]):
		return End{Pod: model.PodKey{Namespace: words[1], Name: words[2]}}, nil
	}
	return End{}, fmt.Errorf("%q is neither NAMESPACE/POD, nor svc/NAMESPACE/NAME, nor an address", text)
}

// OutsideWord is how an end says that it is outside of the cluster.
const OutsideWord = "outside"

// ParsePlace reads an end as people write it: what ParseEnd reads, node/NAME, outside, or a name that the DNS knows.
func ParsePlace(text string) (End, error) {
	switch node, isNode := strings.CutPrefix(text, "node/"); {
	case text == OutsideWord:
		return End{Outside: true}, nil
	case isNode && isName(node):
		return End{Node: node}, nil
	case isName(strings.TrimSuffix(text, ".")):
		if a, _ := netip.ParseAddr(text); !a.IsValid() {
			return End{Name: text}, nil
		}
	}
	end, err := ParseEnd(text)
	if err != nil && !strings.Contains(err.Error(), "is neither") {
		return end, err
	}
	if err != nil {
		return End{}, fmt.Errorf("%q is none of NAMESPACE/POD, svc/NAMESPACE/NAME, node/NAME, a DNS name, an address, and outside", text)
	}
	return end, nil
}

// isName reports whether a text may be a host's name. (RFC 1123, section 2.1; underscores: RFC 2782.)
func isName(text string) bool {
	return text != "" && len(text) <= 253 && !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "-") && !strings.Contains(text, "..") &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
		})
}
