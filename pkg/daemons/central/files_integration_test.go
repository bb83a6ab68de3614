//go:build integration

package central

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withoutAPI: members that have their files start by the record as they saw it last, and so does ovn-northd. One without a file waits.
func withoutAPI(l *lab, places []*place) {
	empty := places[2]
	for _, p := range places {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.kill(what)
		}
	}
	l.door.close()
	must(l.t, os.Rename(empty.path("data"), empty.path("data.away")))
	for _, p := range places {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.start(what)
		}
	}
	two := places[:2]
	for _, kind := range []Kind{Northbound, Southbound} {
		l.until(string(kind)+" is ready without the API server", l.ready(kind, two...))
	}
	for _, p := range two {
		l.until("ovn-northd of "+p.name+" is ready", func() bool { return NorthdReady(l.t.Context(), p.run()) == nil })
	}
	_, err := l.nbctl(two, "--wait=sb", "ls-add", "without-api")
	must(l.t, err)
	if entries, err := os.ReadDir(empty.path("data")); err != nil || len(entries) > 0 || empty.ready(Northbound) {
		l.t.Errorf("a member without a file has made %v without the API server: %v", entries, err)
	}
	for _, what := range []string{"nb", "sb"} {
		empty.kill(what)
	}
	must(l.t, os.Remove(empty.path("data")))
	must(l.t, os.Rename(empty.path("data.away"), empty.path("data")))
	l.openDoor()
	for _, what := range []string{"nb", "sb"} {
		empty.start(what)
	}
	for _, kind := range []Kind{Northbound, Southbound} {
		l.until("three again", l.ready(kind, places...))
	}
}

func emptyDisk(l *lab, places []*place) {
	// The one that stays is the leader, which can propose the removal for an election timer longer than it has a quorum.
	leads := slices.Index(places, l.leader(Northbound, places))
	places[0], places[leads] = places[leads], places[0]
	p := places[1]
	before, _ := l.record(Northbound).Member(p.name)
	other := places[2]
	p.kill("nb")
	must(l.t, os.Rename(p.path("data"), p.path("data.before")))
	// Without a quorum nobody may remove it.
	other.kill("nb")
	p.start("nb")
	l.until("the loss is recorded", func() bool { m, _ := l.record(Northbound).Member(p.name); return m.Lost })
	l.until("it waits", func() bool { return strings.Contains(p.log("nb"), "waiting until the others, with a quorum") })
	l.until("the leader wants to remove it, or leads no longer", func() bool {
		return strings.Contains(places[0].log("nb"), "removing a server from the cluster") || !places[0].leads(Northbound)
	})
	_ = pause(l.t.Context(), 3*time.Second)
	if m, _ := l.record(Northbound).Member(p.name); m.ServerID != before.ServerID || p.ready(Northbound) {
		l.t.Errorf("removed without a quorum: %+v", m)
	}
	other.start("nb")
	l.until("three again", l.ready(Northbound, places...))
	after, _ := l.record(Northbound).Member(p.name)
	if after.ServerID == before.ServerID || after.Lost {
		l.t.Errorf("not joined anew: %+v", after)
	}
	for _, q := range places {
		if n := len(q.servers(Northbound)); n != 3 {
			l.t.Errorf("%s knows %d servers", q.name, n)
		}
	}
}

func wrongFiles(l *lab, places []*place) {
	p := places[0]
	p.kill("nb")
	file := filepath.Join(p.path("data"), "ovnnb_db.db")
	for what, other := range map[string]func() string{
		"of the server before": func() string { return filepath.Join(places[1].path("data.before"), "ovnnb_db.db") },
		"of another cluster": func() string {
			path := p.path("other.db")
			out, err := inNamespace(l.hub, l.ovn, "ovsdb-tool", "create-cluster", path, filepath.Join(l.ovn, "usr/share/ovn/ovn-nb.ovsschema"),
				Remote(p.address, Northbound.RaftPort())).CombinedOutput()
			if err != nil {
				l.t.Fatalf("%v: %s", err, out)
			}
			return path
		},
		"of no database": func() string {
			path := p.path("none.db")
			must(l.t, os.WriteFile(path, []byte("nothing"), 0o600))
			return path
		},
	} {
		wrong, err := os.ReadFile(other())
		must(l.t, err)
		must(l.t, os.Rename(file, file+".right"))
		must(l.t, os.WriteFile(file, wrong, 0o600))
		p.start("nb")
		if err := p.running["nb"].Wait(); err == nil {
			l.t.Errorf("a file %s is no failure", what)
		}
		delete(p.running, "nb")
		log := p.log("nb")
		if last := log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:]; !strings.Contains(last, "refused") {
			l.t.Errorf("a file %s: it says %q", what, last)
		}
		after, err := os.ReadFile(file)
		must(l.t, err)
		if string(after) != string(wrong) {
			l.t.Errorf("a file %s was changed", what)
		}
		must(l.t, os.Rename(file+".right", file))
	}
	events, err := l.store.Client.CoreV1().Events(namespace).List(l.t.Context(), metav1.ListOptions{})
	must(l.t, err)
	if len(events.Items) != 3 {
		l.t.Errorf("%d Events for three refusals", len(events.Items))
	}
	p.start("nb")
	l.until("three again", l.ready(Northbound, places...))
}

func fourth(l *lab, places []*place) {
	p := l.place(4, l.central)
	p.start("nb")
	_ = p.running["nb"].Wait()
	delete(p.running, "nb")
	if !strings.Contains(p.log("nb"), "has its 3 members") {
		l.t.Errorf("a fourth node says %q", p.log("nb"))
	}
	// A node that is gone makes place.
	gone := places[2]
	gone.kill("nb")
	for _, q := range places[:2] {
		must(l.t, q.stop("nb"))
		q.start("nb", "--gone-after=1s")
	}
	l.until("two go on", l.ready(Northbound, places[:2]...))
	must(l.t, l.store.Client.CoreV1().Nodes().Delete(l.t.Context(), gone.name, metav1.DeleteOptions{}))
	l.until("the node that is gone is no member", func() bool { _, has := l.record(Northbound).Member(gone.name); return !has })
	p.start("nb")
	l.until("the fourth node is the third member", func() bool { return p.ready(Northbound) && len(p.servers(Northbound)) == 3 })
}

// TestOneBecomesThree is what applying the overlay ha over the overlay single does: the one member starts anew with another flag,
// two others join.
func TestOneBecomesThree(t *testing.T) {
	l := newLab(t)
	places := []*place{l.place(1, l.central), l.place(2, l.central), l.place(3, l.central)}
	one := places[:1]
	kinds := []Kind{Northbound, Southbound}
	for _, kind := range kinds {
		places[0].start(string(kind), "--members=1")
	}
	places[0].start("northd")
	for _, kind := range kinds {
		l.until(string(kind)+" of one is ready", l.ready(kind, one...))
	}
	// While it is to be one, nobody joins it.
	places[1].start("nb", "--members=1")
	_ = places[1].running["nb"].Wait()
	delete(places[1].running, "nb")
	if log := places[1].log("nb"); !strings.Contains(log, "has its 1 members (node-1)") {
		t.Errorf("a second node of a cluster of one says %q", log)
	}
	w := l.write(places, "grown")
	l.until("some writes", func() bool { return w.count() > enough })
	// New nodes' pods start at once with what is new; the one that is there is replaced.
	for _, p := range places[1:] {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.start(what)
		}
	}
	for _, kind := range kinds {
		must(t, places[0].stop(string(kind)))
		places[0].start(string(kind))
	}
	before := l.record(Northbound).ClusterID
	for _, kind := range kinds {
		l.until(string(kind)+" of three is ready", l.ready(kind, places...))
		for _, p := range places {
			l.until("three servers of "+string(kind), func() bool { return len(p.servers(kind)) == 3 })
		}
	}
	seen := w.count()
	l.until("writes go on", func() bool { return w.count() > seen+enough })
	w.check(l, places)
	if now := l.record(Northbound).ClusterID; now != before {
		t.Errorf("it is cluster %s, and was %s", now, before)
	}
	// The first may go now.
	places[0].kill("nb")
	l.leader(Northbound, places[1:])
	northdWorks(l, places[1:])
}
