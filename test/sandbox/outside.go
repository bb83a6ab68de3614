package sandbox

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

// Outside is the place that stands for the rest of the world: what the nodes' default route leads to. It has a DNS
// server, a web server and netprobe, and knows the way back to the nodes only: a packet that leaves the cluster with a
// pod's address gets no answer.
const Outside = "outside"

// Addresses of the outside, of the ranges for documentation (RFC 5737, RFC 3849).
var (
	outsideServer  = netip.MustParseAddr("203.0.113.10")
	outsideServer6 = netip.MustParseAddr("2001:db8::10")
	outsideDNS     = netip.MustParseAddr("203.0.113.53")
	outsideDNS6    = netip.MustParseAddr("2001:db8::53")
)

// OutsideAddresses are those of the servers in the place Outside, IPv4 first. Its DNS knows them as www.outside.test;
// netprobe serves on its usual port, and http://www.outside.test/health answers OK.
func OutsideAddresses() []netip.Addr { return []netip.Addr{outsideServer, outsideServer6} }

// gateway and gateway6 are the outside's addresses on the nodes' network.
func gateway() netip.Addr  { return hostIn(nodeNet, 254) }
func gateway6() netip.Addr { return hostIn6(nodeNet6, 254) }

// outsideSpec describes the outside.
func outsideSpec(r record) place.Spec {
	l := r.layout()
	return place.Spec{
		ID: r.ID, Name: Outside, State: l.state, Control: l.control(Outside), Logs: l.logs(),
		Cgroup:      filepath.Join(processorRoot(), daemonsCgroup(r, Outside)),
		Overlays:    privateDirs,
		Directories: runDirs,
		Environment: environment(r),
		Daemons: []place.DaemonSpec{
			{
				Name:  "dns",
				Argv:  []string{r.Parts.CoreDNS, "-conf", l.in(Outside, "Corefile")},
				Ready: place.Check{URL: "http://127.0.0.1/health"},
			},
			{
				Name:  "netprobe",
				Argv:  []string{"env", "POD_NAME=" + Outside, "POD_UID=" + Outside, r.Parts.Netprobe, "serve"},
				Ready: place.Check{Socket: "@netprobe"},
			},
		},
	}
}

// outsideFiles are the files that its daemons read, by their names.
func outsideFiles(r record) map[string][]byte {
	zone := r.layout().in(Outside, "root.zone")
	return map[string][]byte{
		"Corefile": fmt.Appendf(nil, `. {
    errors
    health :80
    file %s
}
`, zone),
		// All the world's names. The answer to big.outside.test does not fit into a packet of UDP without EDNS.
		"root.zone": fmt.Appendf(nil, `$ORIGIN .
@                    3600 IN SOA ns.outside.test. hostmaster.outside.test. 1 3600 600 86400 30
@                    3600 IN NS  ns.outside.test.
ns.outside.test.     3600 IN A     %[1]s
ns.outside.test.     3600 IN AAAA  %[2]s
www.outside.test.    3600 IN A     %[3]s
www.outside.test.    3600 IN AAAA  %[4]s
alias.outside.test.  3600 IN CNAME www.outside.test.
big.outside.test.    3600 IN TXT   %[5]q %[5]q %[5]q %[5]q
`, outsideDNS, outsideDNS6, outsideServer, outsideServer6, strings.Repeat("x", 250)),
	}
}
