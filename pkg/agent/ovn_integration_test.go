//go:build integration

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startOVN adds a whole OVN to the node: both databases, northd, and an ovn-controller.
func (n *node) startOVN() {
	n.tb.Helper()
	remote := "unix:" + filepath.Join(n.dir, "ovn.sock")
	var files []string
	for _, schema := range []string{n.parts.NorthboundSchema, n.parts.SouthboundSchema} {
		file := filepath.Join(n.dir, filepath.Base(schema)+".db")
		n.run("ovsdb-tool", "create", file, schema)
		files = append(files, file)
	}
	n.startDaemon("central", append([]string{"ovsdb-server", "--remote=p" + remote}, files...)...)
	n.awaitSocket("ovn.sock")
	// Both before anyone reads them: ovn-controller 25.03 crashes on a southbound database without its first row.
	n.nbctl("init")
	n.run("ovn-sbctl", "--timeout=20", "--db="+remote, "init")
	n.startDaemon("northd", "ovn-northd", "--ovnnb-db="+remote, "--ovnsb-db="+remote)
	n.joinOVN()
}

// joinOVN makes the node a chassis.
func (n *node) joinOVN() {
	n.tb.Helper()
	n.introduce()
	// As ovn-controller makes it: ovs-vswitchd drops all flows when this changes later.
	n.vsctl("set-fail-mode", "br-int", "secure")
	n.startDaemon("controller", "ovn-controller", n.db)
}

// startDaemon runs a daemon until the test ends.
func (n *node) startDaemon(name string, command ...string) {
	n.tb.Helper()
	daemon := n.start(command[0], append(command[1:], "--no-chdir", "-vconsole:off",
		"--unixctl="+filepath.Join(n.dir, name+".ctl"), "--log-file="+filepath.Join(n.dir, name+".log"))...)
	if n.daemons == nil {
		n.daemons = map[string]*exec.Cmd{}
	}
	n.daemons[name] = daemon
	n.tb.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
}

// introduce tells ovn-controller where OVN is, as whoever sets up a node does.
func (n *node) introduce() {
	n.tb.Helper()
	n.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id="+n.name,
		"external_ids:ovn-remote=unix:"+filepath.Join(n.central, "ovn.sock"),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-bridge-datapath-type="+n.datapath)
}

func (n *node) nbctl(args ...string) string {
	n.tb.Helper()
	return n.run("ovn-nbctl", append([]string{"--timeout=20", "--db=unix:" + filepath.Join(n.central, "ovn.sock")}, args...)...)
}

// addLogicalPort does the controller's part for a pod.
func (n *node) addLogicalPort(network string, p *testPod) {
	n.tb.Helper()
	name := p.request.Pod.Key().String()
	addresses := p.nic.MAC
	for _, prefix := range p.nic.Addresses {
		addresses += " " + prefix.Addr().String()
	}
	n.nbctl("--may-exist", "ls-add", network, "--", "lsp-add", network, name,
		"--", "lsp-set-addresses", name, addresses, "--", "lsp-set-port-security", name, addresses,
		"--", "set", "Logical_Switch_Port", name,
		"options:requested-chassis="+n.name, "options:iface-id-ver="+p.request.Pod.UID)
}

func TestPodsOfOneAddressInTwoNetworks(t *testing.T) {
	n := newNode(t)
	n.startOVN()
	a := n.agent()
	pods := map[string]*testPod{}
	for _, network := range []string{"red", "blue"} {
		for host, name := range map[byte]string{5: "one", 6: "two"} {
			p := newPod(t, a, network+"-"+name, host)
			n.addLogicalPort(network, p)
			_, err := a.Add(t.Context(), p.request)
			must(t, err)
			pods[p.request.Pod.Name] = p
		}
	}
	must(t, talk(t, pods["red-one"], pods["red-two"]))
	must(t, talk(t, pods["blue-one"], pods["blue-two"]))
	for _, p := range pods {
		must(t, a.Check(t.Context(), p.request))
	}
}

// A tenant who writes another's address on a pod before the controller does gains nothing: OVN drops what the
// pod sends from there.
func TestForgedAnnotationReachesNobody(t *testing.T) {
	n := newNode(t)
	n.startOVN()
	a := n.agent()
	victim, thief := newPod(t, a, "victim", 5), newPod(t, a, "thief", 6)
	for _, p := range []*testPod{victim, thief} {
		n.addLogicalPort("red", p)
	}
	thief.nic = attachmentOf(7)
	thief.publish(a)
	for _, p := range []*testPod{victim, thief} {
		_, err := a.Add(t.Context(), p.request)
		must(t, err)
	}
	if err := talk(t, thief, victim); err == nil {
		t.Error("a forged address was let through")
	}
	// The control: a port that may have it.
	thiefs := thief.request.Pod.Key().String()
	n.nbctl("--wait=hv", "lsp-set-port-security", thiefs, "--", "lsp-set-addresses", thiefs, thief.nic.MAC+" "+thief.address())
	await(t, func() *bool {
		if talk(t, thief, victim) != nil {
			return nil
		}
		there := true
		return &there
	})
}

// The worst that a node can lose: both daemons and all they knew. ovn-controller makes the bridge anew.
func TestPodsSurviveALostDatabaseUnderOVN(t *testing.T) {
	n := newNode(t)
	n.startOVN()
	a := n.agent()
	one, two := newPod(t, a, "one", 5), newPod(t, a, "two", 6)
	for _, p := range []*testPod{one, two} {
		n.addLogicalPort("red", p)
		_, err := a.Add(t.Context(), p.request)
		must(t, err)
	}
	n.stopOVS()
	must(t, os.Remove(filepath.Join(n.dir, "conf.db")))
	n.startOVS()
	n.introduce()
	for a.Status(t.Context()) != nil {
		<-a.ovs.Changed()
	}
	must(t, a.sweep(t.Context()))
	for _, p := range []*testPod{one, two} {
		must(t, a.ovs.Installed(t.Context(), p.hostName()))
	}
	// ovn-controller replaces all flows of the new switch once more some time later; a connection that is cut
	// by that is begun again.
	var err error
	for range 6 {
		if err = talk(t, one, two); err == nil {
			return
		}
		t.Logf("pods do not talk yet: %v", err)
	}
	must(t, err)
}
