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
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/atoll-net/atoll/test/wait"
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
		"--no-leader-only", "--db=" + Remote(to.address, port), "-p", certificates + "/tls.key", "-c", certificates + "/tls.crt", "-C",
		to.path("certificates-sb") + "/ca.crt", "--timeout=8",
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
	// Those who say nothing keep nobody away.
	l.inside(places[1].netns, func() {
		for range 2 * proxyClients {
			conn, err := wait.Dial(&net.Dialer{}, "tcp", netip.AddrPortFrom(leader.address, FullPort).String(), 3*time.Second)
			must(l.t, err)
			defer conn.Close()
		}
		must(l.t, greet(l, l.hub, leader, FullPort, own))
	})
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
		conn, err := wait.Dial(&net.Dialer{}, "tcp", netip.AddrPortFrom(to.address, port).String(), 3*time.Second)
		if err != nil {
			result = err
			return
		}
		defer conn.Close()
		client := tls.Client(conn, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
		defer wait.Limit(client, 2*time.Second)()
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
	node := stolen.path("certificates-sb")
	// others are of the central CA, and of no member.
	others := map[string]string{
		"a node that is no member": l.place(7, l.central).path("certificates-sb"), "a controller": filepath.Join(l.dir, "controller"),
	}
	certificate, key := l.central.issue(l.t, "atoll-controller")
	must(l.t, os.MkdirAll(others["a controller"], 0o700))
	must(l.t, os.WriteFile(others["a controller"]+"/tls.crt", certificate, 0o600))
	must(l.t, os.WriteFile(others["a controller"]+"/tls.key", key, 0o600))
	ns, err := netns.GetFromName(places[0].netns)
	must(l.t, err)
	defer ns.Close()
	for _, kind := range []Kind{Northbound, Southbound} {
		for _, port := range []uint16{kind.RaftPort(), kind.RelayPort()} {
			err := greet(l, stolen.netns, places[0], port, node)
			if wait, ok := errors.AsType[net.Error](err); !ok || !wait.Timeout() {
				l.t.Errorf("a stranger reaches port %d: %v", port, err)
			}
		}
		// Somebody on the members' link takes a member's address: the guard is no obstacle.
		conn, err := nftables.New(nftables.WithNetNSFd(int(ns)))
		must(l.t, err)
		conn.DelTable(guardTable(kind))
		must(l.t, conn.Flush())
		if err := greet(l, stolen.netns, places[0], kind.RelayPort(), node); err == nil {
			l.t.Errorf("a node's certificate is good for the raft of %s", kind)
		}
		for who, certificates := range others {
			if err := greet(l, stolen.netns, places[0], kind.RelayPort(), certificates); err == nil {
				l.t.Errorf("the certificate of %s is good for the raft of %s", who, kind)
			}
		}
		if err := greet(l, stolen.netns, places[0], kind.RaftPort(), node); !errors.Is(err, syscall.ECONNREFUSED) {
			l.t.Errorf("the server of %s itself listens: %v", kind, err)
		}
		// The controls: a member's certificate does it, and the others are good elsewhere.
		if err := greet(l, stolen.netns, places[0], kind.RelayPort(), places[1].path("certificates-sb")); err != nil {
			l.t.Errorf("a member is not let in: %v", err)
		}
		must(l.t, guard(conn, kind, l.record(kind).Addresses()))
	}
	must(l.t, greet(l, stolen.netns, places[0], Southbound.ClientPort(), node))
	for _, certificates := range others {
		must(l.t, greet(l, stolen.netns, places[0], FullPort, certificates))
	}
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
				conn, err := tls.Dial("tcp", netip.AddrPortFrom(p.address, port).String(),
					&tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
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

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func lastLine(err error) string {
	text := strings.TrimSpace(err.Error())
	return text[strings.LastIndex(text, "\n")+1:]
}
