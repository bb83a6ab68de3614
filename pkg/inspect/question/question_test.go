package question

import (
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// TestWhatCannotBeAsked: a question says what is wrong with it, the packet before the ends.
func TestWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	ask := func(from, to, protocol string, port uint16) api.ExplanationSpec {
		return api.ExplanationSpec{From: from, To: to, Protocol: protocol, Port: port}
	}
	ofNetwork := ask("red/web", "red/db", "tcp", 80)
	ofNetwork.Network = "red"
	for _, c := range []struct {
		spec api.ExplanationSpec
		want string
	}{
		{ask("red/web", "red/db", "tcp", 80), ""},
		{ask("red/web", "10.0.0.5", "icmp", 0), ""},
		{ask("node/n1", "svc/red/db", "udp", 53), ""},
		{ask("outside", "10.0.0.5", "tcp", 80), ""},
		{ask("10.0.0.5", "10.0.0.5", "tcp", 80), ""},
		{ask("red/web", "red/db", "gre", 0), "is none of tcp"},
		{ask("red/web", "red/db", "icmp", 80), "icmp has no ports"},
		{ask("red/web", "red/db", "tcp", 0), "name the port"},
		{ask("svc/red/db", "svc/red/db", "tcp", 0), "name the port"},
		{ask("svc/red/db", "red/web", "tcp", 80), "begins no connections"},
		{ask("db.red", "red/web", "tcp", 80), "begins no connections"},
		{ask("red/web", "red/web", "tcp", 80), "both ends are the same"},
		{ask("node/n1", "node/n2", "tcp", 80), "nothing of Atoll's"},
		{ask("outside", "db.red", "tcp", 80), "nothing of Atoll's"},
		{ask("node/n1", "outside", "tcp", 80), "nothing of Atoll's"},
		{ofNetwork, "neither end is an address"},
	} {
		_, err := ParseQuestion(c.spec)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.spec, err, c.want)
		}
	}
}
