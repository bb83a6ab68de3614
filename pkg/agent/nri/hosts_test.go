package nri

import (
	"net/netip"
	"strings"
	"testing"
)

const kubeletHostsHead = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost " +
	"ip6-loopback\nfe00::0\tip6-localnet\n"

func TestOwnHosts(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"both families", "100.64.1.5\tweb-0\nfd64::1:5\tweb-0\n", "100.64.9.9\tweb-0\nfd00:1::9\tweb-0\n"},
		{"with a domain", "100.64.1.5\tweb-0.web.red.svc.cluster.local\tweb-0\n", "100.64.9.9\tweb-0.web.red.svc.cluster.local\tweb-0\n"},
		{"another notation of the face", "FD64:0::1:5 web-0\n", "fd00:1::9 web-0\n"},
		{"no newline at the end", "100.64.1.5\tweb-0", "100.64.9.9\tweb-0"},
		{"the face in a comment or a name", "# 100.64.1.5\n10.0.0.1\t100.64.1.5\n", "# 100.64.1.5\n10.0.0.1\t100.64.1.5\n"},
		{"a longer address", "100.64.1.50\tx\n", "100.64.1.50\tx\n"},
		{
			"aliases stay",
			"100.64.1.5\tweb-0\n\n# Entries added by HostAliases.\n100.64.1.5\tother\n10.1.2.3\tdb\tdb.example\n",
			"100.64.9.9\tweb-0\n\n# Entries added by HostAliases.\n100.64.1.5\tother\n10.1.2.3\tdb\tdb.example\n",
		},
		{"nothing", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ownHosts(kubeletHostsHead+test.content, testPairs()); got != kubeletHostsHead+test.want {
				t.Errorf("ownHosts = %q, want %q", got, kubeletHostsHead+test.want)
			}
		})
	}
}

// FuzzOwnHosts: a container may have written anything into the file. Names and line ends stay.
func FuzzOwnHosts(f *testing.F) {
	f.Add(kubeletHostsHead + "100.64.1.5\tweb-0\r\n")
	f.Add("fd64::1:5")
	f.Fuzz(func(t *testing.T, content string) {
		got := ownHosts(content, testPairs())
		if strings.Count(got, "\n") != strings.Count(content, "\n") {
			t.Errorf("ownHosts(%q) = %q has another number of lines", content, got)
		}
		if ownHosts(content, nil) != content {
			t.Errorf("without faces %q is changed", content)
		}
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, aliasesHeader) {
				break
			}
			first := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
			if len(first) == 0 || strings.ContainsAny(line[:1], " \t\r\n") {
				continue
			}
			if a, err := netip.ParseAddr(first[0]); err == nil && a == testPairs()[0].Face {
				t.Errorf("ownHosts(%q) = %q still names the face", content, got)
			}
		}
	})
}
