//go:build integration

package central

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMembersOfBeforeJoinAnew: members whose servers listen at the network themselves, as they did before there were relays, join
// anew one after the other, and what is written meanwhile is kept.
func TestMembersOfBeforeJoinAnew(t *testing.T) {
	l := newLab(t)
	places := []*place{l.place(1, l.central), l.place(2, l.central), l.place(3, l.central)}
	kinds := []Kind{Northbound, Southbound}
	for _, kind := range kinds {
		d := Database{Bootstrap: places[0].name}
		for _, p := range places {
			f := files{
				programs: Programs{
					Path: func(name string) string { return filepath.Join(l.ovn, "bin", name) }, Schemas: filepath.Join(l.ovn, "usr/share/ovn"),
				}, kind: kind, dir: p.path("data"),
			}
			own := raftAddress(kind, p.address, Direct)
			must(t, os.MkdirAll(f.dir, 0o700))
			if d.ClusterID == "" {
				must(t, f.create(t.Context(), own, electionTimer(kind)))
			} else {
				must(t, f.join(t.Context(), d.ClusterID, own, []string{raftAddress(kind, places[0].address, Direct)}))
			}
			must(t, f.rename(f.draft(), f.database()))
			h, err := f.header(t.Context(), f.database())
			must(t, err)
			if h.Address != own {
				t.Fatalf("the file's address is %s", h.Address)
			}
			d.ClusterID = h.ClusterID
			d = d.with(Member{Node: p.name, Address: p.address, ServerID: h.ServerID})
		}
		must(t, l.store.Swap(t.Context(), kind, Database{}, d))
	}
	for _, p := range places {
		p.start("nb")
		p.start("sb")
	}
	l.until("somebody leads", func() bool { return l.leader(Northbound, places) != nil })
	w := l.write(places, "anew")
	for _, kind := range kinds {
		l.until("each member of "+string(kind)+" has joined anew", func() bool {
			for _, m := range l.record(kind).Members {
				if m.Raft != Relayed || m.ServerID == "" || m.Lost {
					return false
				}
			}
			return l.ready(kind, places...)()
		})
		for _, p := range places {
			servers := p.servers(kind)
			if len(servers) != len(places) {
				t.Errorf("%s knows %d servers of %s", p.name, len(servers), kind)
			}
			for _, s := range servers {
				if !strings.HasPrefix(s.Address, "unix:") {
					t.Errorf("a server of %s is at %s", kind, s.Address)
				}
			}
			if aside, err := filepath.Glob(p.path("data") + "/ovn" + string(kind) + "_db.db.moved-*"); err != nil || len(aside) != 1 {
				t.Errorf("%s has %q, %v; want the file of before kept", p.name, aside, err)
			}
		}
	}
	w.check(l, places)
}
