package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// show is a certificate of an authority, with its key, as a client or a server shows it.
func show(t *testing.T, authority Authority, g Grant) (tls.Certificate, files) {
	t.Helper()
	key := newKey(t)
	text, err := authority.Issue(g, key.Public(), time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	private, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, private)
	if err != nil {
		t.Fatal(err)
	}
	return pair, files{FileKey: private, FileCertificate: text}
}

// meet has a client and a server shake hands over loopback, and says what either says.
func meet(t *testing.T, server, client *tls.Config) (serves, asks error) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		defer func() { _ = conn.Close() }()
		shaken := tls.Server(conn, server)
		if err := shaken.HandshakeContext(context.WithoutCancel(t.Context())); err != nil {
			served <- err
			return
		}
		_, err = io.WriteString(shaken, "y")
		served <- err
	}()
	conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err == nil {
		// In TLS 1.3 a client learns with the first byte whether it is admitted.
		_, asks = io.ReadFull(conn, make([]byte, 1))
		_ = conn.Close()
	} else {
		asks = err
	}
	return <-served, asks
}

// TestAgentsAndInspectionKnowEachOther: an agent answers atoll-inspect, of nodes that are not shut out, and controllers of the
// version before, and nobody else; and atoll-inspect takes nobody else for a node's agent.
func TestAgentsAndInspectionKnowEachOther(t *testing.T) {
	t.Parallel()
	now, loopback := time.Now(), netip.MustParseAddr("127.0.0.1")
	central, node, agents := newAuthority(t, string(Central), now), newAuthority(t, string(Node), now), newAuthority(t, string(Agent), now)
	dirWith := func(all files) string {
		t.Helper()
		dir := t.TempDir()
		if err := writeFiles(dir, all); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	inspection := grantOf(SignerInspect, "n3")
	_, kept := show(t, central, inspection)
	kept[FileCentralCA], kept[FileAgentCA] = central.Bundle(), agents.Bundle()
	asker := AgentClient(dirWith(kept), "n1")(loopback)
	out := map[string]bool{"n9": true}
	shutOut := func(node string) bool { return out[node] }
	agentOf := func(authority Authority, g Grant) *tls.Config {
		_, all := show(t, authority, g)
		all[FileCentralCA] = central.Bundle()
		return AgentServer(dirWith(all), shutOut)
	}
	good := Grant{CommonName: "n1", Server: true, Addresses: []netip.Addr{loopback}}
	agent := agentOf(agents, good)
	if serves, asks := meet(t, agent, asker); serves != nil || asks != nil {
		t.Errorf("%v, %v", serves, asks)
	}
	trusting := func(shown ...tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: shown}
	}
	client := func(authority Authority, g Grant) *tls.Config {
		shown, _ := show(t, authority, g)
		return trusting(shown)
	}
	controller := Grant{CommonName: ControllerName, Client: true}
	// The control: whatever the client believes, it is its certificate that decides.
	if serves, asks := meet(t, agent, client(central, controller)); serves != nil || asks != nil {
		t.Errorf("a controller's certificate by itself: %v, %v", serves, asks)
	}
	if serves, asks := meet(t, agent, client(central, inspection)); serves != nil || asks != nil {
		t.Errorf("inspection's certificate by itself: %v, %v", serves, asks)
	}
	for name, test := range map[string]struct {
		client *tls.Config
		says   string
	}{
		"nobody": {trusting(), "didn't provide a certificate"},
		"a member": {
			client(central, Grant{CommonName: MemberPrefix + "n1", Client: true, Server: true}), "not of atoll-inspect",
		},
		"a controller's server":       {client(central, Grant{CommonName: "atoll-inspect", Server: true}), "incompatible key usage"},
		"inspection's own server":     {client(agents, grantOf(SignerInspectServer, "n3")), "unknown authority"},
		"inspection of no node":       {client(central, grantOf(SignerInspect, "")), "not of atoll-inspect"},
		"inspection that is shut out": {client(central, grantOf(SignerInspect, "n9")), "shut out"},
		"a node as inspection":        {client(node, inspection), "unknown authority"},
		"an agent as inspection":      {client(agents, inspection), "unknown authority"},
		"a controller as a server":    {client(central, Grant{CommonName: ControllerName, Server: true}), "incompatible key usage"},
		"a node":                      {client(node, Grant{CommonName: "n2", Client: true}), "unknown authority"},
		"a node with a name of ours":  {client(node, controller), "unknown authority"},
		"another agent":               {client(agents, Grant{CommonName: ControllerName, Client: true}), "unknown authority"},
		"a stranger":                  {client(newAuthority(t, string(Central), now), controller), "unknown authority"},
	} {
		if serves, asks := meet(t, agent, test.client); asks == nil || serves == nil || !strings.Contains(serves.Error(), test.says) {
			t.Errorf("%s is answered: the agent says %v, it %v", name, serves, asks)
		}
	}
	for name, test := range map[string]struct {
		agent *tls.Config
		says  string
	}{
		"another node's agent": {
			agentOf(agents, Grant{CommonName: "n2", Server: true, Addresses: good.Addresses}), `of the agent of node "n2"`,
		},
		"the agent elsewhere": {
			agentOf(agents, Grant{CommonName: "n1", Server: true, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}), "192.0.2.1",
		},
		"a node's own authority": {agentOf(node, good), "unknown authority"},
		"inspection":             {agentOf(agents, grantOf(SignerInspectServer, "n1")), "not of \"n1\""},
		"a member": {
			agentOf(central, Grant{CommonName: "n1", Server: true, Client: true, Addresses: good.Addresses}), "unknown authority",
		},
		"a client's certificate": {agentOf(agents, Grant{CommonName: "n1", Client: true, Addresses: good.Addresses}), "incompatible key usage"},
	} {
		if _, asks := meet(t, test.agent, asker); asks == nil || !strings.Contains(asks.Error(), test.says) {
			t.Errorf("%s is taken for the agent of n1: %v", name, asks)
		}
	}
	if serves, asks := meet(t, AgentServer(t.TempDir(), shutOut), asker); serves == nil || asks == nil {
		t.Errorf("without a certificate an agent serves: %v, %v", serves, asks)
	}
	// A node may have any name: what inspection serves with is for no address.
	called := AgentClient(dirWith(kept), InspectName)(loopback)
	if _, asks := meet(t, agentOf(agents, grantOf(SignerInspectServer, "n1")), called); asks == nil ||
		!strings.Contains(asks.Error(), "127.0.0.1") {
		t.Errorf("inspection is taken for the agent of a node of its name: %v", asks)
	}
	// No member, and nobody who believes members or nodes, takes an agent for one.
	shown, _ := show(t, agents, good)
	for name, authority := range map[string]Authority{"central": central, "node": node} {
		if err := verifyMember([]*x509.Certificate{shown.Leaf}, authority.pool()); err == nil {
			t.Errorf("whoever believes %s takes an agent for a member", name)
		}
	}
	if !slices.Equal(shown.Leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("an agent's certificate may be used for %v", shown.Leaf.ExtKeyUsage)
	}
}
