//go:build integration

package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// logged counts the lines that ovn-controller has written about packets that ACLs of a name judged, with a verdict.
func (j *judged) logged(name, verdict string) int {
	j.tb.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "controller.log"))
	must(j.tb, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "acl_log") && strings.Contains(line, `name="`+name+`", verdict=`+verdict+",") {
			n++
		}
	}
	return n
}

// What isolation drops is logged under the name of a policy that isolates the pod and asks for logs; and all that the policies
// of a namespace log is bounded together.
func TestIsolationIsLoggedAndLogsAreBounded(t *testing.T) {
	j := newJudged(t)
	web, friend, stranger := j.pod("red", "web", "10.0.0.5", "web"), j.pod("red", "friend", "10.0.0.6", "friend"), j.pod("red", "stranger", "10.0.0.7", "stranger")
	own := netip.MustParseAddr("10.0.0.5")
	seen := countArrivals(t, web, 9000, 9009)
	quiet := allowing("red", "quiet", "web", "friend", 9009, 9009)
	j.policy(quiet)
	// Ten rules that log, each of its own policy.
	for port := 9000; port < 9009; port++ {
		p := allowing("red", "p"+string(rune('0'+port-9000)), "web", "friend", uint16(port), uint16(port))
		p.Log = true
		j.policy(p)
	}
	j.nbctl("--wait=hv", "sync")
	arrives(t, friend, own, 9000, seen, "friend")
	arrives(t, friend, own, 9008, seen, "friend")
	lines := func() (all int) {
		for rule := range 9 {
			name := "red/p" + string(rune('0'+rule)) + ":Ingress:"
			all += j.logged(name+"0", "allow") + j.logged(name+"isolation", "drop")
		}
		return all
	}
	before, began := lines(), time.Now()
	_, stopDropped := flood(t, stranger, own, 9000, 9008, "stranger")
	_, stopAllowed := flood(t, friend, own, 9000, 9008, "friend")
	drops := func() (all int) {
		for rule := range 9 {
			all += j.logged("red/p"+string(rune('0'+rule))+":Ingress:isolation", "drop")
		}
		return all
	}
	await(t, func() *bool {
		if drops() > 5 && lines() > before+60 {
			return new(bool)
		}
		return nil
	})
	stopDropped()
	stopAllowed()
	// Ten a second, and what the meter lets through at once in the beginning. Were it ten for each rule, they would come in less
	// than a second.
	got, most := lines()-before, int(time.Since(began).Seconds()*10)+30
	t.Logf("%d lines in %s, %d of them of what isolation dropped", got, time.Since(began), drops())
	if got > most {
		t.Errorf("%d lines in %s, at most %d are to be", got, time.Since(began), most)
	}
	if n := j.logged("red/quiet:Ingress:0", "allow") + j.logged("red/quiet:Ingress:isolation", "drop"); n > 0 {
		t.Errorf("%d lines of a policy that does not log", n)
	}
}
