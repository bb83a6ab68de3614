//go:build integration

package central

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// place is a node.
type place struct {
	*lab
	name    string
	netns   string
	address netip.Addr
	running map[string]*exec.Cmd
	// asks is the kubeconfig of a node that asks for its certificates itself; empty: the lab's, with which it may not.
	asks string
}

// place makes a node with a certificate of an authority.
func (l *lab) place(number int, by authority) *place {
	l.t.Helper()
	p := &place{
		lab: l, name: fmt.Sprintf("node-%d", number), netns: fmt.Sprintf("%s-%d", l.hub, number),
		address: netip.AddrFrom4([4]byte{10, 71, 0, byte(10 + number)}), running: map[string]*exec.Cmd{},
	}
	l.namespace(p.netns)
	l.inside(l.hub, func() {
		hub, err := netlink.LinkByName("hub")
		must(l.t, err)
		ns, err := netns.GetFromName(p.netns)
		must(l.t, err)
		defer ns.Close()
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("port%d", number), MasterIndex: hub.Attrs().Index}, PeerName: "eth0",
			PeerNamespace: netlink.NsFd(ns),
		}
		must(l.t, netlink.LinkAdd(pair))
		must(l.t, netlink.LinkSetUp(pair))
	})
	l.inside(p.netns, func() {
		eth, err := netlink.LinkByName("eth0")
		must(l.t, err)
		must(l.t, netlink.AddrAdd(eth, address(p.address.String()+"/24")))
		must(l.t, netlink.LinkSetUp(eth))
	})
	_, err := l.store.Client.CoreV1().Nodes().Create(l.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.name}},
		metav1.CreateOptions{})
	must(l.t, err)
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, p.address)
	_, err = l.store.Client.CoreV1().Nodes().Patch(l.t.Context(), p.name, types.MergePatchType, []byte(status), metav1.PatchOptions{},
		"status")
	must(l.t, err)
	if by.key != nil {
		p.certify(by)
	} else {
		must(l.t, os.MkdirAll(p.path(""), 0o700))
	}
	l.t.Cleanup(func() {
		for what := range p.running {
			p.kill(what)
		}
		if l.t.Failed() {
			for _, what := range []string{"nb", "sb", "northd"} {
				if text, err := os.ReadFile(p.path(what + ".log")); err == nil {
					lines := strings.Split(string(text), "\n")
					l.t.Logf("%s %s:\n%s", p.name, what, strings.Join(lines[max(0, len(lines)-25):], "\n"))
				}
			}
		}
	})
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, p.name, name) }
func (p *place) run() string             { return p.path("run") }

// certify gives the node new certificates: those for its databases, and of its own for clients.
func (p *place) certify(by authority) {
	p.t.Helper()
	name := p.name
	if by.key == p.central.key {
		name = memberNames + name
	}
	certificate, key := by.issue(p.t, name, p.address)
	both := append(bytes.Clone(p.central.pem), p.node.pem...)
	for dir, ca := range map[string][]byte{"certificates-nb": p.central.pem, "certificates-sb": both} {
		must(p.t, os.MkdirAll(p.path(dir), 0o700))
		for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": ca, "central-ca.crt": p.central.pem} {
			must(p.t, os.WriteFile(p.path(dir)+"/new", text, 0o600))
			must(p.t, os.Rename(p.path(dir)+"/new", filepath.Join(p.path(dir), name)))
		}
	}
}

// start runs a keeper: nb, sb or northd.
func (p *place) start(what string, more ...string) {
	p.t.Helper()
	args := []string{"northd"}
	certificates := "certificates-nb"
	if what != "northd" {
		args = []string{"database", what, "--node-name=" + p.name, "--address=" + p.address.String(), "--data=" + p.path("data")}
		certificates = "certificates-" + what
	}
	api := p.api
	if p.asks != "" {
		api = p.asks
	}
	args = append(args, "--kubeconfig="+api, "--namespace="+namespace, "--run="+p.run(), "--certificates="+p.path(certificates),
		"--schemas="+filepath.Join(p.ovn, "usr/share/ovn"))
	log, err := os.OpenFile(p.path(what+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(p.t, err)
	defer log.Close()
	cmd := p.command(p.program, append(args, more...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	p.starter <- func() { started <- cmd.Start() }
	must(p.t, <-started)
	p.running[what] = cmd
}

func inNamespace(name string, prefix, program string, args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", name, program}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+prefix+"/bin:"+os.Getenv("PATH"))
	return cmd
}

// command runs a program in the node's network namespace, as the same process.
func (p *place) command(program string, args ...string) *exec.Cmd {
	return inNamespace(p.netns, p.ovn, program, args...)
}

// kill ends a keeper with no chance to say goodbye.
func (p *place) kill(what string) {
	if cmd := p.running[what]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(p.running, what)
	}
}

// stop asks a keeper to end, and waits for it.
func (p *place) stop(what string) error {
	cmd := p.running[what]
	delete(p.running, what)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return cmd.Wait()
}

func (p *place) log(what string) string {
	text, err := os.ReadFile(p.path(what + ".log"))
	must(p.t, err)
	return string(text)
}

func (p *place) ready(kind Kind) bool { return Ready(p.t.Context(), p.run(), kind) == nil }

func (p *place) leads(kind Kind) bool {
	s, err := status(p.t.Context(), p.run(), kind)
	return err == nil && s.Leads()
}

// serverPID is the process of a keeper's ovsdb-server.
func (p *place) serverPID(what string) string {
	keeper := p.running[what].Process.Pid
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(keeper), "ovsdb-server").Output()
	must(p.t, err)
	return strings.TrimSpace(string(out))
}
