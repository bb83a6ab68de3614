//go:build integration

package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
)

// southbound is a real OVN central whose southbound database is reached over TLS, with the role ovn-controller.
type southbound struct {
	*ovn.Central
	address       string
	central, node Authority
	dir           string
}

func newSouthbound(t *testing.T) *southbound {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &southbound{central: newAuthority(t, "central", time.Now()), node: newAuthority(t, "node", time.Now()), dir: dir}
	s.serve(t)
	if err := os.Mkdir(filepath.Join(dir, "ovn"), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	s.Central, err = ovn.Run(t.Context(), ovn.Options{
		Dir: filepath.Join(dir, "ovn"), Northd: true, SouthboundArgs: append(s.files("server"),
			"--remote=db:OVN_Southbound,SB_Global,connections"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.do(t, s.NBCtl, "--wait=sb", "sync")
	s.do(t, s.SBCtl, "set-connection", "role=ovn-controller", fmt.Sprintf("pssl:%d:127.0.0.1", port))
	s.address = fmt.Sprintf("ssl:127.0.0.1:%d", port)
	until(t, "the server", func() error {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.address, "ssl:"))
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return s
}

// serve writes the server's files: as a member's Keeper does.
func (s *southbound) serve(t *testing.T) {
	t.Helper()
	s.write(t, "server", s.central,
		Grant{CommonName: MemberPrefix + "m", Server: true, Client: true, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		append(s.central.Bundle(), s.node.Bundle()...))
}

// certify writes a node's files.
func (s *southbound) certify(t *testing.T, name string) {
	t.Helper()
	s.write(t, name, s.node, Grant{CommonName: name, Client: true}, s.central.Bundle())
}

func (s *southbound) write(t *testing.T, name string, authority Authority, g Grant, trusted []byte) {
	t.Helper()
	key := newKey(t)
	private, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.Issue(g, key.Public(), time.Now(), MaxLife)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(filepath.Join(s.dir, name),
		files{FileKey: private, FileCertificate: certificate, FileCA: trusted, FileCentralCA: s.central.Bundle()}); err != nil {
		t.Fatal(err)
	}
}

// files are the options by which OVN's programs find them.
func (s *southbound) files(name string) []string {
	dir := filepath.Join(s.dir, name)
	return []string{
		"--private-key=" + filepath.Join(dir, FileKey), "--certificate=" + filepath.Join(dir, FileCertificate),
		"--ca-cert=" + filepath.Join(dir, FileCA),
	}
}

// as runs ovn-sbctl with somebody's certificate.
func (s *southbound) as(ctx context.Context, name string, args ...string) (string, error) {
	return s.Client(ctx, append(append(s.files(name), "--db="+s.address), args...)...)
}

func (s *southbound) do(t *testing.T, ctl func(context.Context, ...string) (string, error), args ...string) string {
	t.Helper()
	out, err := ctl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (s *southbound) chassis(t *testing.T, name, tunnel string) *ovn.Chassis {
	t.Helper()
	s.certify(t, name)
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := ovn.StartChassis(t.Context(), ovn.ChassisOptions{
		Dir: dir, Name: name, Southbound: s.address, Certificates: s.files(name), Datapath: datapath, Tunnel: netip.MustParseAddr(tunnel),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// plug makes the interface of a logical port, as far as ovn-controller looks at it.
func plug(t *testing.T, c *ovn.Chassis, port string) {
	t.Helper()
	if _, err := c.VSCtl(t.Context(), "--no-wait", "add-port", "br-int", port, "--", "set", "Interface", port,
		"type=internal", "external_ids:iface-id="+port); err != nil {
		t.Fatal(err)
	}
}

func (s *southbound) awaitUp(t *testing.T, port, up string) {
	t.Helper()
	until(t, port+" up="+up, func() error {
		out, err := s.SBCtl(t.Context(), "get", "Port_Binding", port, "up")
		if err == nil && strings.TrimSpace(out) != up {
			err = fmt.Errorf("up is %s", out)
		}
		return err
	})
}

// rolePermissions are what the role ovn-controller may write in OVN 25.03: table, the column that must have the client's CN
// ([""]: none), whether rows may be inserted and deleted, and the columns that may be changed.
const rolePermissions = `
BFD,[chassis_name],false,[status]
Chassis,[name],true,"[encaps, external_ids, nb_cfg, other_config, transport_zones, vtep_logical_switches]"
Chassis_Private,[name],true,"[chassis, external_ids, nb_cfg, nb_cfg_timestamp]"
Controller_Event,"[""""]",true,"[chassis, event_info, event_type, seq_num]"
Encap,[chassis_name],true,"[ip, options, type]"
FDB,"[""""]",true,"[dp_key, mac, port_key, timestamp]"
IGMP_Group,[chassis_name],true,"[address, chassis, datapath, ports, protocol]"
MAC_Binding,"[""""]",true,"[datapath, ip, logical_port, mac, timestamp]"
Port_Binding,"[""""]",false,"[additional_chassis, additional_encap, chassis, encap, options, up, virtual_parent]"
Service_Monitor,[chassis_name],false,[status]
`

// A node whose name is longer than what X.509 allows a CN (64) works end to end with its own certificate; and with a stolen one,
// the rows of others are out of reach, but for what OVN's role leaves open.
func TestStolenNode(t *testing.T) {
	s := newSouthbound(t)
	name := "n1." + strings.Repeat("long-name.", 8) + "example"
	s.do(t, s.NBCtl, "--wait=sb", "ls-add", "sw", "--", "lsp-add", "sw", "p1", "--", "lsp-add", "sw", "p2", "--", "lsp-add", "sw", "p3",
		"--", "set", "Logical_Switch_Port", "p1", "options:requested-chassis="+name, "addresses=\"0a:00:00:00:00:01 10.0.0.1\"",
		"--", "set", "Logical_Switch_Port", "p2", "options:requested-chassis=n2", "addresses=\"0a:00:00:00:00:02 10.0.0.2\"")
	honest, other := s.chassis(t, name, "192.0.2.1"), s.chassis(t, "n2", "192.0.2.2")
	plug(t, honest, "p1")
	plug(t, other, "p2")
	s.awaitUp(t, "p1", "true")
	s.awaitUp(t, "p2", "true")
	// Another version of OVN may let nodes write more: then docs/security.md is no longer true.
	permissions := strings.Split(s.do(t, s.SBCtl, "--format=csv", "--no-headings", "--columns=table,authorization,insert_delete,update",
		"list", "RBAC_Permission"), "\n")
	slices.Sort(permissions)
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(rolePermissions), "\n"), permissions); diff != "" {
		t.Errorf("what OVN's role lets a node write (-known +now):\n%s", diff)
	}

	find := func(table, condition string) string {
		return strings.Fields(s.do(t, s.SBCtl, "--bare", "--columns=_uuid", "find", table, condition))[0]
	}
	datapath := find("Datapath_Binding", "external_ids:name=sw")
	flow := find("Logical_Flow", "priority>0")
	attacks := []struct {
		what string
		args []string
		open bool
	}{
		{"its own chassis", []string{"set", "Chassis", name, "external_ids:x=y"}, true},
		{"another's chassis", []string{"set", "Chassis", "n2", "external_ids:x=y"}, false},
		{"another's private row", []string{"set", "Chassis_Private", "n2", "nb_cfg=1"}, false},
		{"another's tunnel", []string{"set", "Encap", find("Encap", "chassis_name=n2"), "ip=192.0.2.66"}, false},
		{"a chassis of a new name", []string{"chassis-add", "n3", "geneve", "192.0.2.3"}, false},
		{
			"a logical flow",
			[]string{
				"create", "Logical_Flow", "logical_datapath=" + datapath, "pipeline=ingress", "table_id=0", "priority=1", "match=\"1\"",
				"actions=\"next;\"",
			},
			false,
		},
		{"a change of a logical flow", []string{"set", "Logical_Flow", flow, "external_ids:x=y"}, false},
		{"a datapath", []string{"set", "Datapath_Binding", datapath, "external_ids:x=y"}, false},
		{"an address set", []string{"create", "Address_Set", "name=evil", "addresses=10.0.0.1"}, false},
		{"a port group", []string{"create", "Port_Group", "name=evil"}, false},
		{"a load balancer", []string{"create", "Load_Balancer", "name=evil"}, false},
		{"names", []string{"create", "DNS", "records:x=10.0.0.1", "datapaths=" + datapath}, false},
		{"the global row", []string{"set", "SB_Global", ".", "options:x=y"}, false},
		{"the remotes", []string{"set", "Connection", ".", "role=\"\""}, false},
		{"the roles", []string{"set", "RBAC_Permission", find("RBAC_Permission", "table=Chassis"), "authorization=\"\""}, false},
		{"a port's addresses", []string{"set", "Port_Binding", "p2", "mac=x"}, false},
		{"which node a port is asked for on", []string{"set", "Port_Binding", "p2", "requested_chassis=" + find("Chassis", "name="+name)}, false},
		{"a port's options", []string{"set", "Port_Binding", "p2", "options:x=y"}, true},
		{"a port's key", []string{"set", "Port_Binding", "p2", "tunnel_key=77"}, false},
		{"the chassis of a free port", []string{"set", "Port_Binding", "p3", "chassis=" + find("Chassis", "name="+name)}, true},
		{"the chassis of another's port", []string{"set", "Port_Binding", "p2", "chassis=" + find("Chassis", "name="+name)}, true},
		{"that another's port is down", []string{"set", "Port_Binding", "p2", "up=false"}, true},
		{
			"a neighbour of a router's",
			[]string{"create", "MAC_Binding", "logical_port=p2", "ip=10.0.0.9", "mac=\"0a:00:00:00:00:09\"", "datapath=" + datapath},
			true,
		},
		// pkg/controller/southbound takes it back.
		{"that another's port is on its chassis as well", []string{
			"set", "Port_Binding", "p2", "additional_chassis=" + find("Chassis", "name="+name),
			"additional_encap=" + find("Encap", "chassis_name="+name),
		}, true},
		{
			"a route of a router's",
			[]string{
				"create", "Learned_Route", "datapath=" + datapath, "logical_port=" + find("Port_Binding", "logical_port=p2"), "ip_prefix=10.0.9.0/24",
				"nexthop=10.0.0.9",
			},
			false,
		},
		{"where a MAC address is", []string{"create", "FDB", "mac=\"0a:00:00:00:00:09\"", "dp_key=1", "port_key=1"}, true},
	}
	for _, attack := range attacks {
		_, err := s.as(t.Context(), name, attack.args...)
		switch {
		case attack.open && err != nil:
			t.Errorf("a stolen node no longer writes %s: docs/security.md says that it does: %v", attack.what, err)
		case !attack.open && (err == nil || !strings.Contains(err.Error(), "permission")):
			t.Errorf("a stolen node writes %s: %v", attack.what, err)
		}
		if attack.open {
			continue
		}
		// The connection of the one who may: it is neither the words of the command nor the rows that are wrong.
		defer func() {
			if _, err := s.SBCtl(context.WithoutCancel(t.Context()), attack.args...); err != nil {
				t.Errorf("the control: %s cannot be written at all: %v", attack.what, err)
			}
		}()
	}
	// The node that the port was taken from takes it back: its ovn-controller has the interface, and is the one that is asked for.
	until(t, "p2 on its own node again", func() error {
		out, err := s.SBCtl(t.Context(), "get", "Port_Binding", "p2", "chassis")
		if err == nil && strings.TrimSpace(out) != find("Chassis", "name=n2") {
			err = errors.New("it is elsewhere")
		}
		return err
	})

	// An honest ovn-controller of the stolen node claims no port that is asked for elsewhere; one that is asked for nowhere it does.
	plug(t, honest, "p3")
	s.awaitUp(t, "p3", "true")

	// The member's own CAs let nobody in but members and nodes.
	s.write(t, "stranger", newAuthority(t, "node", time.Now()), Grant{CommonName: "n2", Client: true}, s.central.Bundle())
	if _, err := s.as(t.Context(), "stranger", "list", "SB_Global"); err == nil {
		t.Error("a certificate of an unknown authority is let in")
	}
	if out, err := s.as(t.Context(), "n2", "list", "SB_Global"); err != nil || out == "" {
		t.Errorf("the control: a node's is not let in: %v", err)
	}
}

// A controller reaches members only: the central authority must have signed the certificate as a server's, under a member's name.
func TestControllersReachMembersOnly(t *testing.T) {
	s := newSouthbound(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	signer := NewSigner(SignerConfig{Log: log})
	open := func() error {
		database, err := ovsdb.OpenSouthbound(t.Context(), ovsdb.Config{Addresses: []string{s.address}, TLS: signer.TLS(), Log: log})
		if err == nil {
			database.Close()
		}
		return err
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "authorities are not known") {
		t.Errorf("without authorities: %v", err)
	}
	signer.authorities.Store(&Authorities{Central: s.central, Node: s.node})
	if err := open(); err != nil {
		t.Errorf("a member is not reached: %v", err)
	}
	trusted := append(s.central.Bundle(), s.node.Bundle()...)
	for _, test := range []struct {
		authority Authority
		grant     Grant
		message   string
	}{
		{s.central, Grant{CommonName: ControllerName, Server: true, Client: true}, "not of a member"},
		{s.node, Grant{CommonName: MemberPrefix + "m", Server: true, Client: true}, "unknown authority"},
		{s.central, Grant{CommonName: MemberPrefix + "m", Client: true}, "incompatible key usage"},
	} {
		s.write(t, "server", test.authority, test.grant, trusted)
		until(t, test.message, func() error {
			if err := open(); err == nil || !strings.Contains(err.Error(), test.message) {
				return fmt.Errorf("a server that is %q: %w", test.grant.CommonName, err)
			}
			return nil
		})
	}
}

// OVSDB's locks know no roles: a stolen node can take ovn-northd's, so that nothing more becomes of what is written to the
// northbound database. It ends with the node's connection. docs/security.md says so.
func TestStolenNodeTakesTheLock(t *testing.T) {
	s := newSouthbound(t)
	s.certify(t, "n1")
	status := func(want string) func() error {
		return func() error {
			out, err := s.Ask(t.Context(), "northd", "status")
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("northd says %q", out)
			}
			return err
		}
	}
	until(t, "northd works", status("active"))
	conn, err := dial(t.Context(), filepath.Join(s.dir, "n1"), strings.TrimPrefix(s.address, "ssl:"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(`{"method":"steal","params":["ovn_northd"],"id":1}`)); err != nil {
		t.Fatal(err)
	}
	until(t, "northd stands by", status("standby"))
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "northd works again", status("active"))
}

// The server and ovn-controller take over what the files hold, without a restart and without a connection that ends: a new key
// and certificate, a new CA, and that an old one is no longer trusted.
func TestDaemonsTakeOverCertificates(t *testing.T) {
	s := newSouthbound(t)
	s.do(t, s.NBCtl, "--wait=sb", "ls-add", "sw", "--", "lsp-add", "sw", "p1", "--", "lsp-add", "sw", "p2")
	node := s.chassis(t, "n1", "192.0.2.1")
	plug(t, node, "p1")
	s.awaitUp(t, "p1", "true")

	// Both CAs anew, with overlap: as the signer does it.
	oldCentral, oldNode := s.central, s.node
	s.central, s.node = newAuthority(t, "central", time.Now()), newAuthority(t, "node", time.Now())
	// It knows the server's new CA, so that it is the server that lets it in or does not.
	s.write(t, "old", oldNode, Grant{CommonName: "n1", Client: true}, append(oldCentral.Bundle(), s.central.Bundle()...))
	trusted := append(append(oldCentral.Bundle(), s.central.Bundle()...), append(oldNode.Bundle(), s.node.Bundle()...)...)
	s.write(t, "server", oldCentral, Grant{CommonName: MemberPrefix + "m", Server: true, Client: true}, trusted)
	s.write(t, "n1", s.node, Grant{CommonName: "n1", Client: true}, append(oldCentral.Bundle(), s.central.Bundle()...))
	until(t, "a new node certificate is let in", func() error { _, err := s.as(t.Context(), "n1", "list", "SB_Global"); return err })
	if out, err := node.Ask(t.Context(), "ovn-controller", "connection-status"); err != nil || out != "connected" {
		t.Errorf("ovn-controller is %s: %v", out, err)
	}
	if _, err := s.as(t.Context(), "old", "list", "SB_Global"); err != nil {
		t.Errorf("the control: with overlap a certificate of the old CA is let in: %v", err)
	}
	// Now the new CAs only.
	s.serve(t)
	s.certify(t, "n1")
	until(t, "the server shows its new certificate", func() error {
		leaf, err := serverLeaf(t.Context(), filepath.Join(s.dir, "n1"), strings.TrimPrefix(s.address, "ssl:"))
		if err != nil {
			return err
		}
		return valid(leaf, s.central.Bundle(), time.Now(), x509.ExtKeyUsageServerAuth)
	})
	if out, err := s.as(t.Context(), "old", "list", "SB_Global"); err == nil {
		t.Errorf("a certificate of the old CA is still let in: %s", out)
	} else {
		// ovsdb-server writes its log in a thread of its own, some time after it has answered.
		until(t, "the server says that it is the certificate", func() error {
			if words := s.LastWords("sb"); !strings.Contains(words, "certificate verify failed") {
				return fmt.Errorf("it fails (%w), and the server says:\n%s", err, words)
			}
			return nil
		})
	}
	if out, err := node.Ask(t.Context(), "ovn-controller", "connection-status"); err != nil || out != "connected" {
		t.Errorf("ovn-controller is %s: %v", out, err)
	}
	// The server ends; ovn-controller, which is as old as the old certificates, connects with the new ones.
	s.Kill("sb")
	if err := s.StartDatabase(t.Context(), "sb"); err != nil {
		t.Fatal(err)
	}
	plug(t, node, "p2")
	s.awaitUp(t, "p2", "true")
}

// serverLeaf is the certificate that a server shows.
func serverLeaf(ctx context.Context, dir, address string) (leaf *x509.Certificate, err error) {
	conn, err := dial(ctx, dir, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// dial connects with the certificate in a directory.
func dial(ctx context.Context, dir, address string) (*tls.Conn, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, FileCertificate), filepath.Join(dir, FileKey))
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}
