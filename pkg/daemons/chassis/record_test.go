package chassis

import (
	"strings"
	"testing"
)

func TestChange(t *testing.T) {
	for _, c := range []struct {
		known, next place
		want        change
	}{
		{place{}, place{cluster: "a"}, stays},
		{place{cluster: "a"}, place{cluster: "a"}, stays},
		{place{cluster: "a"}, place{cluster: "", held: true}, waits},
		{place{cluster: "a"}, place{cluster: ""}, waits},
		{place{cluster: "a"}, place{cluster: "b", held: true}, waits},
		{place{cluster: "a"}, place{cluster: "b"}, moved},
	} {
		if got := c.next.change(c.known); got != c.want {
			t.Errorf("%+v after %+v: %d, want %d", c.next, c.known, got, c.want)
		}
	}
}

func TestSouthbound(t *testing.T) {
	for _, c := range []struct {
		name, sb, want, err string
		plaintext           Plaintext
	}{
		{
			name: "three, in any order",
			sb:   `{"clusterID":"c","members":[{"node":"b","serverID":"2","address":"10.0.0.2"},{"address":"fd00::3"},{"address":"10.0.0.1"}]}`,
			want: "ssl:10.0.0.1:6642,ssl:10.0.0.2:6642,ssl:[fd00::3]:6642",
		},
		{name: "twice", sb: `{"members":[{"address":"10.0.0.1"},{"address":"::ffff:10.0.0.1"}]}`, want: "ssl:10.0.0.1:6642"},
		{name: "none", sb: `{"members":[]}`, err: "names no member"},
		{name: "no JSON", sb: `x`, err: "read key sb"},
		{name: "a name", sb: `{"members":[{"node":"n1","address":"db.example.com"}]}`, err: `member n1 has the address "db.example.com"`},
		{name: "a name among others", sb: `{"members":[{"address":"10.0.0.1"},{"node":"n1","address":""}]}`, err: "member n1"},
		{name: "words of its own", sb: `{"members":[{"node":"n1","address":"10.0.0.1:1,tcp:10.0.0.9"}]}`, err: "member n1"},
		{name: "a zone", sb: `{"members":[{"node":"n1","address":"fe80::1%eth0"}]}`, err: "member n1"},
		{name: "without TLS", sb: `{"members":[{"node":"n1","address":"tcp:10.0.0.1:6642"}]}`, err: "an IP address is wanted"},
		{
			name: "without TLS, in a test", sb: `{"members":[{"node":"n1","address":"tcp:10.0.0.1:6642"}]}`, want: "tcp:10.0.0.1:6642",
			plaintext: PlaintextForTests,
		},
		{
			name: "words of its own, in a test", sb: `{"members":[{"node":"n1","address":"tcp:10.0.0.1:6642,x"}]}`, err: "member n1",
			plaintext: PlaintextForTests,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := southbound(map[string]string{"sb": c.sb, "nb": "{}"}, c.plaintext)
			if got.remote != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
	if got, err := southbound(map[string]string{"sb": `{"clusterID":"c","held":true,"members":[{"address":"10.0.0.1"}]}`},
		false); err != nil || got.cluster != "c" || !got.held {
		t.Errorf("one that is held: %+v, %v", got, err)
	}
	if _, err := southbound(map[string]string{"nb": "{}"}, false); err == nil || !strings.Contains(err.Error(), "has not been set up") {
		t.Errorf("without the key: %v", err)
	}
}
