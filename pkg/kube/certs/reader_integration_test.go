//go:build integration

package certs

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// TestAgentReadsTheSouthboundDatabase: with its certificate a node's agent reads all that it asks for, over TLS. It writes no row of a
// chassis, not
// even those of its own node, which the node's certificate does write.
func TestAgentReadsTheSouthboundDatabase(t *testing.T) {
	s := newSouthbound(t)
	s.do(t, s.NBCtl, "--wait=sb", "ls-add", "sw", "--", "lsp-add", "sw", "p1",
		"--", "set", "Logical_Switch_Port", "p1", "options:requested-chassis=n1")
	plug(t, s.chassis(t, "n1", "192.0.2.1"), "p1")
	s.awaitUp(t, "p1", "true")
	s.write(t, "agent", s.node, grantOf(SignerReader, "n1"), s.central.Bundle())

	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	read := func(ctx context.Context, name string, read func(*ovsdb.Reader) error) error {
		r, err := ovsdb.OpenReader(ctx, ovsdb.Config{Addresses: []string{s.address}, TLS: Reader(filepath.Join(s.dir, name)), Log: log})
		if err != nil {
			return err
		}
		defer r.Close()
		return read(r)
	}
	if err := read(t.Context(), "agent", func(r *ovsdb.Reader) error {
		ports, registered, err := r.Asked(t.Context(), "n1")
		if err != nil || !registered || !ports["p1"].Claimed {
			return fmt.Errorf("ports are %+v, the node is registered: %t: %w", ports, registered, err)
		}
		if judges, err := r.Judges(t.Context()); err != nil || len(judges) == 0 {
			return fmt.Errorf("flows that judge are %+v: %w", judges, err)
		}
		if found, err := r.Sampled(t.Context(), "n1"); err != nil || len(found.Switches) == 0 {
			return fmt.Errorf("switches are %+v: %w", found, err)
		}
		numbers, err := r.Ports(t.Context(), "n1")
		if err == nil && len(numbers) == 0 {
			err = fmt.Errorf("no port has a number")
		}
		return err
	}); err != nil {
		t.Errorf("the agent does not read: %v", err)
	}

	find := func(table, condition string) string {
		return strings.Fields(s.do(t, s.SBCtl, "--bare", "--columns=_uuid", "find", table, condition))[0]
	}
	for _, test := range []struct {
		what string
		args []string
		// agent and node may write it.
		agent, node bool
	}{
		{"the node's chassis", []string{"set", "Chassis", "n1", "external_ids:x=y"}, false, true},
		{"the node's private row", []string{"set", "Chassis_Private", "n1", "external_ids:x=y"}, false, true},
		{"the node's tunnel", []string{"set", "Encap", find("Encap", "chassis_name=n1"), "options:x=y"}, false, true},
		{"an address set", []string{"create", "Address_Set", "name=evil", "addresses=10.0.0.1"}, false, false},
		{"a logical flow", []string{"set", "Logical_Flow", find("Logical_Flow", "priority>0"), "external_ids:x=y"}, false, false},
		{"the remotes", []string{"set", "Connection", ".", "role=\"\""}, false, false},
		// OVN's role looks at no row's owner here, so that the agent's certificate is as good as the node's: docs/security.md says so.
		{"where a MAC address is", []string{"create", "FDB", "mac=\"0a:00:00:00:00:0{who}\"", "dp_key=1", "port_key=1"}, true, true},
		{"a port's options", []string{"set", "Port_Binding", "p1", "options:x=y"}, true, true},
	} {
		for i, who := range []struct {
			name string
			may  bool
		}{{"agent", test.agent}, {"n1", test.node}} {
			args := slices.Clone(test.args)
			for n := range args {
				args[n] = strings.ReplaceAll(args[n], "{who}", fmt.Sprint(i))
			}
			_, err := s.as(t.Context(), who.name, args...)
			switch {
			case who.may && err != nil:
				t.Errorf("%s does not write %s: %v", who.name, test.what, err)
			case !who.may && (err == nil || !strings.Contains(err.Error(), "permission")):
				t.Errorf("%s writes %s: %v", who.name, test.what, err)
			}
		}
	}

	// The server lets in nobody whom another authority has signed; the control is above.
	s.write(t, "stranger", newAuthority(t, "node", time.Now()), grantOf(SignerReader, "n1"), s.central.Bundle())
	if err := read(t.Context(), "stranger", func(*ovsdb.Reader) error { return nil }); err == nil {
		t.Error("a certificate of an unknown authority is let in")
	}
	// The agent takes nobody but a member for the database.
	for says, grant := range map[string]Grant{
		"not of a member":        {CommonName: ControllerName, Server: true, Client: true},
		"incompatible key usage": {CommonName: MemberPrefix + "m", Client: true},
	} {
		s.write(t, "server", s.central, grant, append(s.central.Bundle(), s.node.Bundle()...))
		until(t, says, func() error {
			if err := read(t.Context(), "agent", func(*ovsdb.Reader) error { return nil }); err == nil || !strings.Contains(err.Error(), says) {
				return fmt.Errorf("a server that is %q: %w", grant.CommonName, err)
			}
			return nil
		})
	}
}
