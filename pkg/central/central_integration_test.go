//go:build integration

package central

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCluster is one life of a cluster of three: each part goes on where the one before ended.
func TestCluster(t *testing.T) {
	l := newLab(t)
	places := []*place{l.place(1, l.central), l.place(2, l.central), l.place(3, l.central)}
	for _, p := range places {
		for _, what := range []string{"nb", "sb", "northd"} {
			p.start(what)
		}
	}
	l.until("nb of three, started at once, is ready", l.ready(Northbound, places...))
	l.until("sb of three, started at once, is ready", l.ready(Southbound, places...))
	for _, kind := range []Kind{Northbound, Southbound} {
		if n := len(l.record(kind).Members); n != 3 {
			t.Fatalf("%s has %d members", kind, n)
		}
		for _, p := range places {
			l.until("three servers of "+string(kind), func() bool { return len(p.servers(kind)) == 3 })
			s, err := status(t.Context(), p.run(), kind)
			must(t, err)
			if s.ElectionTimer != electionTimer(kind) {
				t.Errorf("%s of %s has an election timer of %v", kind, p.name, s.ElectionTimer)
			}
		}
	}
	for _, p := range places {
		l.until("northd of "+p.name+" is ready", func() bool { return NorthdReady(t.Context(), p.run()) == nil })
	}
	for _, part := range []struct {
		name string
		run  func(*lab, []*place)
	}{
		{"northd fills the southbound database", northdWorks},
		{"who is served", whoIsServed},
		{"strangers at the raft port", strangers},
		{"renewed certificates", renewal},
		{"killed in turn while a writer writes", killedInTurn},
		{"stopped, the leader hands over", stopped},
		{"all killed at once", allAtOnce},
		{"cut off", cutOff},
		{"started while the API server is away", withoutAPI},
		{"an empty disk", emptyDisk},
		{"files that do not fit", wrongFiles},
		{"a fourth node", fourth},
	} {
		began := time.Now()
		if !t.Run(part.name, func(t *testing.T) {
			mine := *l
			mine.t = t
			for _, p := range places {
				p.lab = &mine
			}
			part.run(&mine, places)
		}) {
			break
		}
		t.Logf("%6.1f s in all: %s", time.Since(began).Seconds(), part.name)
	}
	for _, p := range places {
		p.lab = l
	}
}

// nbctl runs ovn-nbctl in the middle of the switch, with a certificate of a member.
func (l *lab) nbctl(places []*place, args ...string) (string, error) {
	var remotes []string
	for _, p := range places {
		remotes = append(remotes, Remote(p.address, Northbound.ClientPort()))
	}
	c := places[0].path("certificates-nb")
	out, err := inNamespace(l.hub, l.ovn, "ovn-nbctl", append([]string{
		"--db=" + strings.Join(remotes, ","), "-p", c + "/tls.key", "-c", c + "/tls.crt", "-C", c + "/ca.crt", "--timeout=30",
	}, args...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

func northdWorks(l *lab, places []*place) {
	_, err := l.nbctl(places, "--wait=sb", "ls-add", "first")
	must(l.t, err)
}

// sbctl adds and removes a row at an address of a member, as somebody with a certificate.
func (l *lab) sbctl(to *place, port uint16, certificates string, args ...string) (string, error) {
	out, err := inNamespace(l.hub, l.ovn, "ovn-sbctl", append([]string{
		"--no-leader-only", "--db=" + Remote(to.address, port), "-p", certificates + "/tls.key", "-c", certificates + "/tls.crt", "-C", to.path("certificates-sb") + "/ca.crt", "--timeout=8",
	}, args...)...).CombinedOutput()
	return string(out), err
}

func whoIsServed(l *lab, places []*place) {
	leader := l.leader(Southbound, places)
	stolen := l.place(8, l.node).path("certificates-sb")
	own := places[0].path("certificates-sb")
	add := []string{"create", "Address_Set", "name=mine"}
	// As a node: what its role has, and nothing else.
	if out, err := l.sbctl(leader, 6642, stolen, "chassis-add", "node-8", "geneve", "10.71.0.18"); err != nil {
		l.t.Errorf("a node cannot write its own chassis: %s", out)
	}
	if out, err := l.sbctl(leader, 6642, stolen, add...); err == nil || !strings.Contains(out, "permission") {
		l.t.Errorf("a node may write what its role does not have: %v %s", err, out)
	}
	// With full rights: the central CA alone.
	if out, err := l.sbctl(leader, FullPort, own, add...); err != nil {
		l.t.Errorf("a client of the central CA is refused: %s", out)
	}
	if out, err := l.sbctl(leader, FullPort, stolen, "show"); err == nil {
		l.t.Errorf("a node has full rights: %s", out)
	}
	if greet(l, l.hub, leader, FullPort, stolen) == nil {
		l.t.Error("a node is greeted where full rights are given")
	}
	must(l.t, greet(l, l.hub, leader, FullPort, own))
	// The northbound database does not know the nodes' CA.
	if greet(l, l.hub, leader, 6641, stolen) == nil {
		l.t.Error("a node is greeted by the northbound database")
	}
}

// greet is a TLS handshake from a network namespace. A server refuses a certificate only after its client is content: a byte is read, too.
func greet(l *lab, from string, to *place, port uint16, certificates string) error {
	var result error
	l.inside(from, func() {
		pair, err := tls.LoadX509KeyPair(certificates+"/tls.crt", certificates+"/tls.key")
		must(l.t, err)
		dialer := &net.Dialer{Timeout: 3 * time.Second}
		conn, err := dialer.Dial("tcp", netip.AddrPortFrom(to.address, port).String())
		if err != nil {
			result = err
			return
		}
		defer conn.Close()
		client := tls.Client(conn, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
		_ = client.SetDeadline(time.Now().Add(2 * time.Second))
		if result = client.Handshake(); result != nil {
			return
		}
		_, result = client.Read(make([]byte, 1))
		// Silence: we are in.
		if wait, ok := errors.AsType[net.Error](result); ok && wait.Timeout() {
			result = nil
		}
	})
	return result
}

func strangers(l *lab, places []*place) {
	stolen := l.place(9, l.node)
	for _, kind := range []Kind{Northbound, Southbound} {
		err := greet(l, stolen.netns, places[0], kind.RaftPort(), stolen.path("certificates-sb"))
		if wait, ok := errors.AsType[net.Error](err); !ok || !wait.Timeout() {
			l.t.Errorf("a stranger reaches the raft port of %s: %v", kind, err)
		}
	}
	// The control: without the guard a node's certificate is good enough for the southbound raft.
	ns, err := netns.GetFromName(places[0].netns)
	must(l.t, err)
	defer ns.Close()
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns)))
	must(l.t, err)
	conn.DelTable(guardTable(Southbound))
	must(l.t, conn.Flush())
	if err := greet(l, stolen.netns, places[0], Southbound.RaftPort(), stolen.path("certificates-sb")); err != nil {
		l.t.Errorf("without the guard the stranger does not get in either: %v", err)
	}
	must(l.t, guard(conn, Southbound, l.record(Southbound).Addresses()))
}

func renewal(l *lab, places []*place) {
	p := places[0]
	before := p.serverPID("sb")
	p.certify(l.central)
	text, err := os.ReadFile(p.path("certificates-sb") + "/tls.crt")
	must(l.t, err)
	for _, port := range []uint16{Northbound.ClientPort(), Southbound.ClientPort(), FullPort} {
		l.until(fmt.Sprintf("port %d shows the renewed certificate", port), func() bool {
			shown := false
			l.inside(p.netns, func() {
				pair, err := tls.LoadX509KeyPair(p.path("certificates-sb")+"/tls.crt", p.path("certificates-sb")+"/tls.key")
				must(l.t, err)
				conn, err := tls.Dial("tcp", netip.AddrPortFrom(p.address, port).String(), &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
				if err != nil {
					return
				}
				defer conn.Close()
				shown = string(pemOf(conn.ConnectionState().PeerCertificates[0])) == string(text)
			})
			return shown
		})
	}
	if after := p.serverPID("sb"); after != before {
		l.t.Errorf("the server was started anew: %s, %s", before, after)
	}
}

// writer adds switches one after the other and keeps the names of those that were acknowledged.
type writer struct {
	stop  context.CancelFunc
	ended sync.WaitGroup

	// mu guards what was acknowledged, the longest that one of these took, and how often others failed why.
	mu    sync.Mutex
	names []string
	worst time.Duration
	why   map[string]int
}

// enough is how many writes must go on between two kills.
const enough = 50

// count is how many writes were acknowledged so far.
func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.names)
}

func (l *lab) write(places []*place, prefix string) *writer {
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	w := &writer{stop: stop, why: map[string]int{}}
	// Several at once, so that some are on their way whenever a member is killed.
	for worker := range 4 {
		w.ended.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("%s-%d-%d", prefix, worker, i)
				began := time.Now()
				_, err := l.nbctl(places, "--may-exist", "ls-add", name)
				w.mu.Lock()
				if err != nil {
					// It gives up at the first member that does not answer.
					w.why[lastLine(err)]++
				} else {
					w.names, w.worst = append(w.names, name), max(w.worst, time.Since(began))
				}
				w.mu.Unlock()
			}
		})
	}
	return w
}

// check ends the writer and looks for all that it was promised.
func (w *writer) check(l *lab, places []*place) {
	l.t.Helper()
	w.stop()
	w.ended.Wait()
	out, err := l.nbctl(places, "--bare", "--columns=name", "list", "Logical_Switch")
	must(l.t, err)
	has := map[string]bool{}
	for name := range strings.FieldsSeq(out) {
		has[name] = true
	}
	lost := 0
	for _, name := range w.names {
		if !has[name] {
			lost++
		}
	}
	l.t.Logf("%d writes acknowledged, %d lost; the slowest took %v", len(w.names), lost, w.worst)
	for why, times := range w.why {
		l.t.Logf("%d times: %s", times, why)
	}
	if lost > 0 || len(w.names) < enough {
		l.t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.names))
	}
}

func killedInTurn(l *lab, places []*place) {
	w := l.write(places, "killed")
	first := l.leader(Northbound, places)
	order := []*place{first}
	for _, p := range places {
		if p != first {
			order = append(order, p)
		}
	}
	for _, p := range order {
		pid := p.serverPID("nb")
		p.kill("nb")
		l.until("the server of "+p.name+" went with its keeper", func() bool {
			_, err := os.Stat("/proc/" + pid)
			return errors.Is(err, os.ErrNotExist)
		})
		if p.ready(Northbound) {
			l.t.Error("a member that was killed is ready")
		}
		seen := w.count()
		l.until("writes go on without "+p.name, func() bool { return w.count() > seen+enough })
		p.start("nb")
		l.until("three again", l.ready(Northbound, places...))
	}
	w.check(l, places)
	if n := len(places[0].servers(Northbound)); n != 3 {
		l.t.Errorf("%d servers", n)
	}
}

func stopped(l *lab, places []*place) {
	leader := l.leader(Northbound, places)
	began := time.Now()
	if err := leader.stop("nb"); err != nil {
		l.t.Errorf("the keeper that was told to end: %v", err)
	}
	l.leader(Northbound, places)
	took := time.Since(began)
	if took > electionTimer(Northbound) {
		l.t.Errorf("another leader after %v: leadership was not handed over", took)
	}
	leader.start("nb")
	l.until("three again", l.ready(Northbound, places...))
}

func allAtOnce(l *lab, places []*place) {
	w := l.write(places, "all")
	l.until("some writes", func() bool { return w.count() > enough })
	for _, p := range places {
		p.kill("nb")
	}
	w.check(l, func() []*place {
		for _, p := range places {
			p.start("nb")
		}
		l.until("three again", l.ready(Northbound, places...))
		return places
	}())
}

// cable switches a node's cable.
func (l *lab) cable(p *place, set func(netlink.Link) error) {
	l.inside(l.hub, func() {
		link, err := netlink.LinkByName("port" + strings.TrimPrefix(p.name, "node-"))
		must(l.t, err)
		must(l.t, set(link))
	})
}

func cutOff(l *lab, places []*place) {
	cut := l.leader(Northbound, places)
	var rest []*place
	for _, p := range places {
		if p != cut {
			rest = append(rest, p)
		}
	}
	pid := cut.serverPID("nb")
	l.cable(cut, netlink.LinkSetDown)
	l.until("the leader that is cut off is not ready", func() bool { return !cut.ready(Northbound) })
	l.leader(Northbound, rest)
	_, err := l.nbctl(rest, "ls-add", "without-"+cut.name)
	must(l.t, err)
	l.cable(cut, netlink.LinkSetUp)
	l.until("three again", l.ready(Northbound, places...))
	if cut.serverPID("nb") != pid {
		l.t.Error("the server was started anew for being cut off")
	}
}

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
			out, err := inNamespace(l.hub, l.ovn, "ovsdb-tool", "create-cluster", path, filepath.Join(l.ovn, "usr/share/ovn/ovn-nb.ovsschema"), Remote(p.address, Northbound.RaftPort())).CombinedOutput()
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

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func lastLine(err error) string {
	text := strings.TrimSpace(err.Error())
	return text[strings.LastIndex(text, "\n")+1:]
}

// TestOneBecomesThree is what applying the overlay ha over the overlay single does: the one member starts anew with another flag, two others join.
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
