package attachment

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const goodAnnotation = `[{"podUID":"new","interface":"eth0","network":"red","subnet":"a","mac":"0a:58:0a:00:00:05",` +
	`"addresses":["10.0.0.5/16","fd00::5/64"],"gateways":["10.0.0.1","fe80::1"]}]`

func TestParse(t *testing.T) {
	t.Parallel()
	n, err := Parse(goodAnnotation, "new", "eth0")
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.5/16"), netip.MustParsePrefix("fd00::5/64")}
	if diff := cmp.Diff(want, n.Addresses, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if n.MAC.String() != "0a:58:0a:00:00:05" || n.Gateways[1] != netip.MustParseAddr("fe80::1") {
		t.Errorf("got %+v", n)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	with := func(old, text string) string { return strings.Replace(goodAnnotation, old, text, 1) }
	faces := func(list ...string) string {
		return with(`"gateways"`, `"networkUID":"u","faces":["`+strings.Join(list, `","`)+`"],"gateways"`)
	}
	if n, err := Parse(faces("100.64.0.5", "fd64::5"), "new", "eth0"); err != nil || len(n.Doors()) != 2 {
		t.Errorf("faces are not read: %+v (error %v)", n, err)
	}
	for _, test := range []struct{ name, annotation, says string }{
		{"nothing yet", "", ErrNone.Error()},
		{"another pod's", with("new", "old"), ErrNone.Error()},
		{"no JSON", "{", "read annotation"},
		{"too long", strings.Repeat(" ", maxAnnotation) + goodAnnotation, "longer than"},
		{"too many", "[" + strings.Repeat("{},", maxAttachments) + "{}]", "more than"},
		{"another interface", with("eth0", "eth1"), `no interface "eth0"`},
		{"no MAC", with("0a:58:0a:00:00:05", ""), "MAC"},
		{"a group MAC", with("0a:58", "0b:58"), "MAC"},
		{"a long MAC", with("0a:58:0a:00:00:05", "0a:58:0a:00:00:05:00:01"), "MAC"},
		{"no addresses", with(`"10.0.0.5/16","fd00::5/64"`, ""), "no address"},
		{"loopback", with("10.0.0.5/16", "127.0.0.1/8"), "not an address of a pod"},
		{"link-local", with("10.0.0.5/16", "169.254.169.254/16"), "not an address of a pod"},
		{"multicast", with("fd00::5/64", "ff02::1/64"), "not an address of a pod"},
		{"IPv4 in IPv6", with("fd00::5/64", "::ffff:10.0.0.9/112"), "not an address of a pod"},
		{"everything on the link", with("10.0.0.5/16", "10.0.0.5/0"), "not an address of a pod"},
		{"two of a family", with("fd00::5/64", "10.0.0.6/16"), "more than one address"},
		{"its own gateway", with(`"10.0.0.1"`, `"10.0.0.5"`), "not a gateway"},
		{"two gateways of a family", with(`"fe80::1"`, `"10.0.0.2"`), "not a gateway"},
		{"a gateway of a family without address", with(`,"fd00::5/64"`, ""), "not a gateway"},
		{"a face too few", faces("100.64.0.5"), "1 faces for 2 addresses"},
		{"a face too many", faces("100.64.0.5", "fd64::5", "fd64::6"), "3 faces for 2 addresses"},
		{"faces in another order", faces("fd64::5", "100.64.0.5"), "cannot be the face"},
		{"a face that nobody can have", faces("127.0.0.1", "fd64::5"), "cannot be the face"},
		{"a face that says another", faces("100.64.0.5", "::ffff:100.64.0.6"), "cannot be the face"},
		{"faces of no Network", strings.Replace(faces("100.64.0.5", "fd64::5"), `"networkUID":"u"`, `"networkUID":""`, 1), "of Network"},
	} {
		_, err := Parse(test.annotation, "new", "eth0")
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.says)
		}
	}
	if _, err := Parse("", "new", "eth0"); !errors.Is(err, ErrNone) {
		t.Errorf("error %v", err)
	}
}

// FuzzParse: whatever a tenant writes on a pod, what passes can be configured.
func FuzzParse(f *testing.F) {
	f.Add(goodAnnotation)
	f.Add(`[{"podUID":"new","interface":"eth0","mac":"02:00:00:00:00:01","addresses":["::1/0"]}]`)
	f.Add(`[{"podUID":"new","interface":"eth0","gateways":[""]}]`)
	f.Add(strings.Replace(goodAnnotation, `"gateways"`, `"networkUID":"u","faces":["100.64.0.5","fd64::5"],"gateways"`, 1))
	f.Fuzz(func(t *testing.T, annotation string) {
		n, err := Parse(annotation, "new", "eth0")
		if err != nil {
			return
		}
		if len(n.MAC) != 6 || len(n.Addresses) == 0 || len(n.Addresses) > 2 || len(n.Gateways) > len(n.Addresses) {
			t.Errorf("passed: %+v", n)
		}
		if len(n.Faces) != 0 && len(n.Faces) != len(n.Addresses) {
			t.Errorf("%d faces of %d addresses passed", len(n.Faces), len(n.Addresses))
		}
		for _, a := range n.Addresses {
			if !a.IsValid() || a.Addr().IsMulticast() || a.Addr().IsLoopback() || a.Addr().Zone() != "" {
				t.Errorf("address %s passed", a)
			}
		}
		for _, g := range n.Gateways {
			if !g.IsValid() || g.IsMulticast() || g.IsUnspecified() {
				t.Errorf("gateway %s passed", g)
			}
			if same := len(slices.DeleteFunc(slices.Clone(n.Addresses), func(a netip.Prefix) bool { return a.Addr().Is4() != g.Is4() })); same != 1 {
				t.Errorf("gateway %s of %d addresses of its family passed", g, same)
			}
		}
		for _, d := range n.Doors() {
			if d.Face.Is4() != d.Own.Is4() || !isHost(d.Face) {
				t.Errorf("face %s of %s passed", d.Face, d.Own)
			}
		}
	})
}
