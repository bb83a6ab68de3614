//go:build integration

package central

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupAndRestore backs both databases up, goes on, loses everything, and restores as docs/design/central.md tells ("A
// quorum is lost for good", with a backup in place of the file that is left).
func TestBackupAndRestore(t *testing.T) {
	l := newLab(t)
	places := []*place{l.place(1, l.central), l.place(2, l.central), l.place(3, l.central)}
	kinds := []Kind{Northbound, Southbound}
	for _, p := range places {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.start(what)
		}
	}
	for _, kind := range kinds {
		l.until(string(kind)+" is ready", l.ready(kind, places...))
	}
	northdWorks(l, places)
	to := filepath.Join(l.dir, "backup")
	backup := func() string {
		p := places[0]
		cmd := p.command(p.program, "backup", "--kubeconfig="+p.api, "--namespace="+namespace, "--certificates="+p.path("certificates-nb"),
			"--node-name="+p.name, "--address="+p.address.String(), "--to="+to, "--keep=2", "--timeout=1m")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("backup: %v\n%s", err, out)
		}
		return string(out)
	}
	for range 3 {
		said := backup()
		for _, kind := range kinds {
			port := kind.ClientPort()
			if kind == Southbound {
				port = FullPort
			}
			if strings.Contains(said, "from="+Remote(l.leader(kind, places).address, port)) {
				t.Errorf("the leader of %s was asked while there are followers:\n%s", kind, said)
			}
		}
	}
	newest := map[Kind]string{}
	for _, kind := range kinds {
		kept, err := filepath.Glob(filepath.Join(to, backupPrefix(kind)+"*"))
		must(t, err)
		if len(kept) != 2 {
			t.Fatalf("kept: %v", kept)
		}
		newest[kind] = kept[1]
	}
	_, err := l.nbctl(places, "--wait=sb", "ls-add", "later")
	must(t, err)
	// With two of three away there is no quorum; when the one that is left has noticed, nothing pretends to be a backup.
	for _, p := range places[1:] {
		p.kill("nb")
	}
	l.until("the one that is left backs nothing up", func() bool {
		p := places[0]
		out, err := p.command(p.program, "backup", "--kubeconfig="+p.api, "--namespace="+namespace, "--certificates="+p.path("certificates-nb"),
			"--node-name="+p.name, "--address="+p.address.String(), "--to="+filepath.Join(l.dir, "none"), "--timeout=1m").CombinedOutput()
		return err != nil && strings.Contains(string(out), "back up nb: no server answers")
	})

	for _, p := range places {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.kill(what)
		}
		must(t, os.Rename(p.path("data"), p.path("data.lost")))
	}
	for _, kind := range kinds {
		l.restore(places[0], kind, newest[kind])
	}
	for _, p := range places {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.start(what)
		}
	}
	for _, kind := range kinds {
		l.until(string(kind)+" is ready again", l.ready(kind, places...))
		for _, p := range places {
			l.until("three servers of "+string(kind), func() bool { return len(p.servers(kind)) == 3 })
		}
	}
	names, err := l.nbctl(places, "--bare", "--columns=name", "list", "Logical_Switch")
	must(t, err)
	if strings.Join(strings.Fields(names), " ") != "first" {
		t.Errorf("restored: %q", names)
	}
	_, err = l.nbctl(places, "--wait=sb", "ls-add", "afterwards")
	must(t, err)
	south, err := l.sbctl(l.leader(Southbound, places), FullPort, places[0].path("certificates-sb"), "--bare", "--columns=external_ids",
		"list", "Datapath_Binding")
	if err != nil || !strings.Contains(south, "name=first") || !strings.Contains(south, "name=afterwards") ||
		strings.Contains(south, "name=later") {
		t.Errorf("the southbound database has, %v: %s", err, south)
	}
}

// restore does on a node what the page tells.
func (l *lab) restore(p *place, kind Kind, backup string) {
	l.t.Helper()
	must(l.t, os.MkdirAll(p.path("data"), 0o700))
	f := files{
		programs: Programs{Path: func(name string) string { return filepath.Join(l.ovn, "bin", name) }}, kind: kind, dir: p.path("data"),
	}
	_, err := f.tool(l.t.Context(), "create-cluster", f.database(), backup, Remote(p.address, kind.RaftPort()))
	must(l.t, err)
	h, err := f.header(l.t.Context(), f.database())
	must(l.t, err)
	must(l.t, l.store.Swap(l.t.Context(), kind, l.record(kind), Database{
		ClusterID: h.ClusterID, Bootstrap: p.name, Members: []Member{{Node: p.name, Address: p.address, ServerID: h.ServerID}},
	}))
}
