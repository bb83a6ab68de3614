package nri

import (
	"net/netip"
	"strings"
	"testing"
)

// testPairs are a dual-stack pod's. Its own IPv4 address looks like another pod's face.
func testPairs() []Pair {
	return []Pair{
		{Face: netip.MustParseAddr("100.64.1.5"), Own: netip.MustParseAddr("100.64.9.9")},
		{Face: netip.MustParseAddr("fd64::1:5"), Own: netip.MustParseAddr("fd00:1::9")},
	}
}

func TestReplaceWholeAddresses(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"the address", "100.64.1.5", "100.64.9.9"},
		{"the address, IPv6", "fd64::1:5", "fd00:1::9"},
		{"podIPs", "100.64.1.5,fd64::1:5", "100.64.9.9,fd00:1::9"},
		{"URL", "http://100.64.1.5:2380", "http://100.64.9.9:2380"},
		{"URL, IPv6", "http://[fd64::1:5]:2380/x", "http://[fd00:1::9]:2380/x"},
		{"several", "a=http://100.64.1.5:1,b=http://100.64.1.5:2", "a=http://100.64.9.9:1,b=http://100.64.9.9:2"},
		{"side by side", "100.64.1.5 100.64.1.5", "100.64.9.9 100.64.9.9"},
		{"flag", "--bind=100.64.1.5", "--bind=100.64.9.9"},
		{"account at host", "rabbit@100.64.1.5", "rabbit@100.64.9.9"},
		{"name made of it", "node-100.64.1.5", "node-100.64.9.9"},
		{"name made of it, IPv6", "node-fd64::1:5", "node-fd00:1::9"},
		{"host name below a domain", "100.64.1.5.example.net", "100.64.9.9.example.net"},
		{"end of a sentence", "it is 100.64.1.5.", "it is 100.64.9.9."},
		{"prefix", "100.64.1.5/32", "100.64.9.9/32"},
		{"mapped into IPv6", "::ffff:100.64.1.5", "::ffff:100.64.9.9"},
		{"letters around", "x100.64.1.5y", "x100.64.9.9y"},
		{"zone", "fd64::1:5%eth0", "fd00:1::9%eth0"},

		{"nothing", "", ""},
		{"no address", "PATH=/usr/bin", "PATH=/usr/bin"},
		{"another pod's", "100.64.1.6", "100.64.1.6"},
		{"a longer number behind", "100.64.1.50", "100.64.1.50"},
		{"a longer number before", "1100.64.1.5", "1100.64.1.5"},
		{"a longer dotted number behind", "100.64.1.5.6", "100.64.1.5.6"},
		{"a longer dotted number before", "6.100.64.1.5", "6.100.64.1.5"},
		{"half of it", "100.64.1", "100.64.1"},
		{"other notation", "100-64-1-5.web.pod", "100-64-1-5.web.pod"},
		{"IPv6 with more behind", "fd64::1:5:80", "fd64::1:5:80"},
		{"IPv6 with more before", "0:fd64::1:5", "0:fd64::1:5"},
		{"IPv6 with a longer group", "fd64::1:5a", "fd64::1:5a"},
		{"IPv6 with IPv4 notation behind", "fd64::1:5.6.7.8", "fd64::1:5.6.7.8"},
		{"IPv6 behind a colon", "host:fd64::1:5", "host:fd64::1:5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := newReplacer(testPairs()).replace(test.text); got != test.want {
				t.Errorf("replace(%q) = %q, want %q", test.text, got, test.want)
			}
		})
	}
}

func TestReplacerLeavesOutWhatWouldChangeTheFamily(t *testing.T) {
	v4, v6 := netip.MustParseAddr("100.64.1.5"), netip.MustParseAddr("fd64::5")
	r := newReplacer([]Pair{{Face: v4, Own: v6}, {Face: v6, Own: v4}, {Face: v4}, {Own: v4}, {Face: v4, Own: v4}})
	if len(r) != 0 {
		t.Errorf("newReplacer = %v, want none", r)
	}
}

// FuzzReplace: what stands between faces stays as it is, and a face that stands alone is gone.
func FuzzReplace(f *testing.F) {
	f.Add("http://100.64.1.5:80", "fd64::1:5")
	f.Add("100.64.1.5.100.64.1.5", "[fd64::1:5]")
	f.Fuzz(func(t *testing.T, before, after string) {
		r := newReplacer(testPairs())
		for _, p := range r {
			text := before + " " + p.face + " " + after
			want := r.replace(before) + " " + p.own + " " + r.replace(after)
			if got := r.replace(text); got != want {
				t.Errorf("replace(%q) = %q, want %q", text, got, want)
			}
		}
		if got := r.replace(before); !strings.Contains(before, r[0].face) && !strings.Contains(before, r[1].face) && got != before {
			t.Errorf("replace(%q) = %q, although no face is in it", before, got)
		}
		if got := (replacer{}).replace(before); got != before {
			t.Errorf("without faces %q became %q", before, got)
		}
	})
}
