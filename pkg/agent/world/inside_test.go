package world

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func prefixesOf(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestBeyond(t *testing.T) {
	for what, test := range map[string]struct {
		link         string
		others, want []netip.Prefix
	}{
		"nothing in common":      {"10.0.0.0/24", prefixesOf("10.96.0.0/16", "10.96.0.10/32"), nil},
		"another family":         {"10.0.0.0/8", prefixesOf("fd00:96::/112"), nil},
		"a part":                 {"10.0.0.0/8", prefixesOf("10.96.0.0/16", "10.96.0.10/32", "10.96.0.1/32"), prefixesOf("10.96.0.0/16")},
		"the same twice":         {"10.0.0.0/8", prefixesOf("10.96.0.1/32", "10.96.0.1/32"), prefixesOf("10.96.0.1/32")},
		"all of it":              {"10.96.0.0/16", prefixesOf("10.96.0.0/16"), prefixesOf("10.96.0.0/17", "10.96.128.0/17")},
		"within":                 {"10.96.5.0/30", prefixesOf("10.96.0.0/16", "10.96.5.1/32"), prefixesOf("10.96.5.0/31", "10.96.5.2/31")},
		"IPv6":                   {"fd00:96::/64", prefixesOf("fd00:96::/112"), prefixesOf("fd00:96::/112")},
		"all of it, IPv6":        {"fd00:96::/112", prefixesOf("fd00:96::/108"), prefixesOf("fd00:96::/113", "fd00:96::8000/113")},
		"a part that begins all": {"10.96.0.0/12", prefixesOf("10.96.0.0/16"), prefixesOf("10.96.0.0/16")},
	} {
		if got := beyond(netip.MustParsePrefix(test.link), test.others); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", what, got, test.want)
		}
	}
}

// A face that the Network means something else by is not put where the pod would take it for its own.
func TestFacesThatAreTheNetworksOwn(t *testing.T) {
	w := New("n1")
	n := &model.Network{
		Name: "red", UID: "uid-red", Type: model.VPC, Subnets: []model.Subnet{{Name: "a", CIDRs: prefixesOf("100.64.0.0/16")}},
		ServiceCIDRs: prefixesOf("100.65.1.0/24"),
	}
	w.SetNetwork(n)
	for face, want := range map[string]bool{"100.64.0.5": false, "100.65.1.5": false, "100.65.2.5": true} {
		got, err := w.inside(attachment.NIC{
			Network: "red", NetworkUID: "uid-red", Faces: []netip.Addr{netip.MustParseAddr(face)}, Addresses: prefixesOf("100.64.0.9/16"),
		})
		if err != nil || (len(got.Faces) == 1) != want {
			t.Errorf("face %s: %v (error %v)", face, got.Faces, err)
		}
	}
}
