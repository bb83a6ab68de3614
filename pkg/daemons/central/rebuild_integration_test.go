//go:build integration

package central

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/stream"
)

// crowdPods are pods beside those that are measured.
var crowdPods = flag.Int("pods", 0, "pods of 10.0.0.0/24 in Networks of 200, which have ports and are sent nothing")

// TestRebuild: all members lose the files of both databases. No member creates new ones on its own. atoll ovn rebuild does, without
// an interruption of running pods.
func TestRebuild(t *testing.T) {
	w := newWhole(t)
	w.expiries()
	w.network("red")
	a, _ := w.pod("red", "a", w.nodes[0])
	b, toB := w.pod("red", "b", w.nodes[0])
	c, toC := w.pod("red", "c", w.nodes[1])
	w.arrives(a, b, toB)
	w.arrives(a, c, toC)
	// Datapaths that ovn-northd numbered by itself had other numbers afterwards: these are there when it numbers all at once.
	for _, name := range []string{"blue", "green"} {
		w.network(name)
		w.pod(name, "e", w.nodes[1])
	}
	w.crowd(*crowdPods)
	before := map[Kind]Database{Northbound: w.record(Northbound), Southbound: w.record(Southbound)}
	rows, datapaths, numbers := w.rows(), w.datapaths(), w.numbers()
	if len(datapaths) < 3*3 {
		t.Fatalf("datapaths of three Networks: %v", datapaths)
	}
	ports := w.portsUp()

	near := stream.New(t, a.Do, b.Do, netip.AddrPortFrom(toB, 8001), time.Millisecond)
	far := stream.New(t, a.Do, c.Do, netip.AddrPortFrom(toC, 8002), time.Millisecond)
	must(t, near.Wait(500))
	for _, p := range w.members {
		p.kill("nb")
		p.kill("sb")
		must(t, os.Rename(p.path("data"), p.path("data.lost")))
	}
	for _, p := range w.members {
		p.start("nb")
		p.start("sb")
	}
	for kind := range before {
		w.until("all members of "+string(kind)+" have said that their files are lost", func() bool { return w.record(kind).Lost() })
		for _, p := range w.members {
			w.until(p.name+" says what to do", func() bool { return strings.Contains(p.log(string(kind)), "atoll ovn rebuild") })
		}
	}
	// No member creates a cluster on its own.
	must(t, near.Wait(3000))
	for kind, d := range before {
		if now := w.record(kind); now.ClusterID != d.ClusterID || w.ready(kind, w.members[0])() {
			t.Errorf("%s is %+v", kind, now)
		}
	}
	events, err := w.store.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=DatabaseLost"})
	must(t, err)
	if len(events.Items) < 6 {
		t.Errorf("%d Events of six members that have lost their files", len(events.Items))
	}

	program := w.build("atoll")
	rebuild := func(flags ...string) (string, error) {
		cmd := exec.Command(program, append([]string{"ovn", "rebuild", "--kubeconfig=" + w.server.Kubeconfig(), "--timeout=3m"}, flags...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("atoll ovn rebuild %v: %v\n%s", flags, err, out)
		return string(out), err
	}
	if out, err := rebuild(); err == nil || !strings.Contains(out, "--yes") || !w.record(Northbound).equal(lostOf(before[Northbound])) {
		t.Errorf("without --yes it does something: %v", err)
	}
	began := time.Now()
	if _, err := rebuild("--yes"); err != nil {
		t.Fatal(err)
	}
	w.until("the rows are as they were", func() bool { return w.rows() == rows })
	for _, n := range w.nodes {
		w.until("ovn-controller of "+n.name+" has moved", func() bool {
			return n.connected() && strings.Contains(n.log("controller"), "ready for the new southbound database")
		})
	}
	w.until(fmt.Sprintf("all %d ports are up", ports), func() bool { return w.portsUp() == ports })
	// A node with the flows of before sends packets of a Network by its old number.
	if now := w.datapaths(); !maps.Equal(now, datapaths) {
		t.Errorf("numbers of datapaths: %v, before: %v", now, datapaths)
	}
	// And one to a port of another node by the port's.
	if now := w.numbers(); !maps.Equal(now, numbers) {
		others := 0
		for name, number := range numbers {
			if now[name] != number {
				others++
			}
		}
		t.Errorf("%d of %d ports of pods have another number than before", others, len(numbers))
	}
	t.Logf("%.1f s from the command until ports are up", time.Since(began).Seconds())
	// ovn-controller takes its flows over 4 s after it has started.
	must(t, near.Wait(8000))
	same, gap := loss(near.End())
	across, gapAcross := loss(far.End())
	t.Logf("of %d datagrams, one each ms, lost on the node: %d, longest %d ms; to the other node: %d, longest %d ms", near.Sent(), same, gap,
		across, gapAcross)
	if gap > 100 || gapAcross > 100 {
		t.Errorf("running pods were cut off")
	}
	for kind, d := range before {
		now := w.record(kind)
		if now.ClusterID == d.ClusterID || !slices.Equal(now.Before, []string{d.ClusterID}) || now.Held || len(now.Members) != 3 {
			t.Errorf("%s: %+v", kind, now)
		}
		for _, p := range w.members {
			w.until("three servers of "+string(kind), func() bool { return w.ready(kind, p)() && len(p.servers(kind)) == 3 })
		}
	}
	if out, err := rebuild("--yes"); err == nil || !strings.Contains(out, "nothing is lost") {
		t.Error("it is done twice")
	}
	// New pods start.
	d, toD := w.pod("red", "d", w.nodes[1])
	w.arrives(a, d, toD)

	// A member that turns up with a file of before sets it aside.
	late := w.members[2]
	late.kill("nb")
	file := filepath.Join(late.path("data"), "ovnnb_db.db")
	must(t, os.Rename(file, file+".new"))
	old, err := os.ReadFile(filepath.Join(late.path("data.lost"), "ovnnb_db.db"))
	must(t, err)
	must(t, os.WriteFile(file, old, 0o600))
	late.start("nb")
	w.until("it joins anew", func() bool {
		m, _ := w.record(Northbound).Member(late.name)
		return w.ready(Northbound, late)() && !m.Lost && len(late.servers(Northbound)) == 3
	})
	aside, err := filepath.Glob(file + ".moved-*")
	must(t, err)
	if len(aside) != 1 {
		t.Fatalf("set aside: %v", aside)
	}
	if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the file of before was changed: %v", err)
	}
	w.nodeGoes()
}

// lostOf is a record after all members have lost their files.
func lostOf(d Database) Database {
	d.Members = slices.Clone(d.Members)
	for i := range d.Members {
		d.Members[i].Lost = true
	}
	return d
}

// datapaths are the numbers of all switches and routers, by their names.
func (w *whole) datapaths() map[string]string {
	out, err := w.local(Southbound, "--format=json", "--columns=external_ids,tunnel_key", "list", "Datapath_Binding")
	must(w.t, err)
	var rows struct{ Data [][2]json.RawMessage }
	must(w.t, json.Unmarshal([]byte(out), &rows))
	keys := map[string]string{}
	for _, row := range rows.Data {
		_, after, _ := strings.Cut(string(row[0]), `["name","`)
		name, _, _ := strings.Cut(after, `"`)
		keys[name] = string(row[1])
	}
	return keys
}

// numbers are those of the pods' ports in their switches, by their names.
func (w *whole) numbers() map[string]string {
	out, err := w.local(Southbound, "--format=csv", "--no-headings", "--columns=logical_port,tunnel_key", "find", "Port_Binding", "type=\"\"")
	must(w.t, err)
	numbers := map[string]string{}
	for line := range strings.Lines(out) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ",")
		numbers[name] = number
	}
	if len(numbers) < 5 {
		w.t.Fatalf("numbers of ports: %v", numbers)
	}
	return numbers
}

// portsUp is how many ports of pods nodes have.
func (w *whole) portsUp() int {
	out, err := w.local(Southbound, "--bare", "--columns=logical_port", "find", "Port_Binding", "up=true", "chassis!=[]", "type=\"\"")
	if err != nil {
		return -1
	}
	return len(strings.Fields(out))
}

// rows are what the northbound database has, without what is another's or anew with each.
func (w *whole) rows() string {
	var all []string
	for _, table := range []string{
		"Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port", "Port_Group", "Address_Set", "DHCP_Options",
	} {
		out, err := w.local(Northbound, "--format=csv", "--no-headings", "--columns=external_ids", "list", table)
		if err != nil {
			return err.Error()
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(lines)
		all = append(all, table+": "+strings.Join(lines, "|"))
	}
	return strings.Join(all, "\n")
}

// expiries: the controller tells when the certificates end that members show, and those of the authorities.
func (w *whole) expiries() {
	want := []string{"atoll-ca-central", "atoll-ca-node", "atoll-ca-agent"}
	for _, p := range w.members {
		want = append(want, "atoll-ovn-central:"+p.name)
	}
	w.until("ends of certificates are told", func() bool {
		var text []byte
		w.inside(w.hub, func() {
			// An http.Client dials on a thread of its own, which is elsewhere.
			conn, err := net.DialTimeout("tcp", "127.0.0.1:9410", 5*time.Second)
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Write([]byte("GET /metrics HTTP/1.0\r\n\r\n"))
			text, _ = io.ReadAll(conn)
		})
		for _, name := range want {
			if !strings.Contains(string(text), `atoll_certificate_expiry_seconds{name="`+name+`"} `) {
				return false
			}
		}
		return true
	})
}

// nodeGoes: the Node object of a node goes, and so does its chassis; another's, whose Node is there, stays though it is away.
func (w *whole) nodeGoes() {
	chassis := func() string {
		out, err := w.local(Southbound, "--bare", "--columns=name", "list", "Chassis")
		must(w.t, err)
		names := strings.Fields(out)
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if had := chassis(); had != "node-4 node-5" {
		w.t.Fatalf("chassis: %s", had)
	}
	away, gone := w.nodes[0], w.nodes[1]
	for _, n := range w.nodes {
		controller := n.parts[len(n.parts)-1]
		_ = controller.Process.Kill()
		_ = controller.Wait()
	}
	must(w.t, w.store.Client.CoreV1().Nodes().Delete(w.t.Context(), gone.name, metav1.DeleteOptions{}))
	w.until("the chassis of a node that is gone is deleted", func() bool { return chassis() == away.name })
	// Looked for many times since.
	_ = pause(w.t.Context(), 10*time.Second)
	if has := chassis(); has != away.name {
		w.t.Errorf("of a node that is there: %q", has)
	}
	for _, table := range []string{"Chassis_Private", "Encap"} {
		out, err := w.local(Southbound, "list", table)
		if err != nil || strings.Contains(out, gone.tunnel.String()) || strings.Contains(out, gone.name) {
			w.t.Errorf("%s: %v\n%s", table, err, out)
		}
	}
	events, err := w.store.Client.CoreV1().Events("default").List(w.t.Context(), metav1.ListOptions{FieldSelector: "reason=ChassisDeleted"})
	must(w.t, err)
	if len(events.Items) != 1 || events.Items[0].InvolvedObject.Name != gone.name {
		w.t.Errorf("Events: %+v", events.Items)
	}
}
