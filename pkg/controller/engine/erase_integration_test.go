//go:build integration

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// theirRows are what others have in the same database: a row in each table that Atoll writes, of names like ours.
const theirRows = `ls-add theirs
-- lsp-add theirs red/web-0
-- lr-add red -- lrp-add red their-leg 00:00:00:00:00:01 192.0.2.1/24
-- lr-route-add red 198.51.100.0/24 192.0.2.2 -- lr-policy-add red 10 ip4 allow
-- lb-add their-lb 192.0.2.10:80 192.0.2.11:80 -- ls-lb-add theirs their-lb
-- pg-add their_group red/web-0 -- acl-add their_group to-lport 1000 ip4 drop
-- create Address_Set name=their_set addresses=192.0.2.1 external_ids:owner=Network/red
-- create Load_Balancer_Group name=red
-- create Sample_Collector id=5 name=theirs set_id=5 probability=100
-- create Sampling_App type=acl-est id=2
-- meter-add their-meter drop 10 pktps
-- set NB_Global . external_ids:whose=theirs options:northd-backoff-interval-ms=5`

// ourRows has a row in each table that refers to the others as ours do; and some of ours are in rows of others.
const ourRows = `--id=@port create Logical_Switch_Port name=our-port MARK
-- --id=@stray create Logical_Switch_Port name=our-stray MARK
-- --id=@acl create ACL action=drop direction=to-lport match=ip4 priority=1 MARK sample_new=@sample
-- --id=@far create ACL action=drop direction=to-lport match=ip6 priority=1 MARK
-- --id=@sample create Sample metadata=7 collectors=@collector
-- --id=@collector create Sample_Collector id=97 name=atoll set_id=97 probability=65535 SAMPLES
-- create Sampling_App type=acl-new id=1 SAMPLES
-- --id=@lb create Load_Balancer name=our-lb MARK
-- --id=@group create Load_Balancer_Group name=atoll.dev/Network/red/uid-1 load_balancer=@lb
-- create Logical_Switch name=our-switch ports=@port load_balancer_group=@group acls=@acl MARK
-- --id=@leg create Logical_Router_Port name=our-leg mac="00:00:00:00:00:02" networks="203.0.113.1/24" MARK
-- --id=@route create Logical_Router_Static_Route ip_prefix="198.51.100.0/24" nexthop="203.0.113.2" MARK
-- --id=@policy create Logical_Router_Policy priority=1 match=ip4 action=allow MARK
-- create Logical_Router name=our-router ports=@leg static_routes=@route policies=@policy load_balancer_group=@group load_balancer=@lb MARK
-- create Port_Group name=our_group ports=@port acls=@acl MARK
-- create Address_Set name=our_set addresses=10.0.0.2 MARK
-- create Chassis_Template_Var chassis=n1 MARK
-- --id=@band create Meter_Band action=drop rate=10 MARK
-- create Meter name=our-meter unit=pktps bands=@band MARK
-- add Logical_Switch theirs ports @stray
-- add Logical_Router red load_balancer @lb
-- add Port_Group their_group acls @far`

func nbctl(t *testing.T, c *ovn.Central, commands string) {
	t.Helper()
	commands = strings.NewReplacer("MARK", "external_ids:atoll.dev/owner=Network/red", "SAMPLES",
		"external_ids:atoll.dev/owner="+nb.SampleOwner).Replace(commands)
	if _, err := c.NBCtl(t.Context(), strings.Fields(commands)...); err != nil {
		t.Fatal(err)
	}
}

// dump is all that the database holds.
func dump(t *testing.T, c *ovn.Central) []string {
	t.Helper()
	text, err := c.Dump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(text, "\n")
}

func databaseOf(c *ovn.Central) ovsdb.Config {
	return ovsdb.Config{Addresses: []string{c.NBAddress()}, Log: slog.New(slog.DiscardHandler)}
}

// TestErase: rows of ours go, of each table and wherever they are; the database is what it was before we came, with options as
// they were, and a second erasure changes nothing.
func TestErase(t *testing.T) {
	for _, before := range []string{"", "true", "false"} {
		t.Run("option "+before, func(t *testing.T) {
			central := ovn.Start(t, false)
			nbctl(t, central, "init")
			nbctl(t, central, theirRows)
			if before != "" {
				nbctl(t, central, "set NB_Global . options:"+nb.OptionInvalid+"="+before)
			}
			want := dump(t, central)

			session, err := ovsdb.Open(t.Context(), databaseOf(central))
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			encoder := plan.NewEncoder(session.Schema())
			// Two terms: what the first finds is what was before.
			for _, epoch := range []string{"1", "2"} {
				global, _ := session.Global()
				if err := enter(t.Context(), session, encoder.SetEpoch(epoch, global, nil), encoder, global); err != nil {
					t.Fatal(err)
				}
			}
			nbctl(t, central, ourRows)
			there := map[nb.Table]bool{}
			awaitNothing(t, func() string {
				for _, ref := range ours(session) {
					there[ref.Table] = true
				}
				for _, table := range nb.Tables() {
					if !there[table.Table] {
						return fmt.Sprintf("no row of ours in %s", table.Table)
					}
				}
				return ""
			})

			erasure := Erasure{Database: databaseOf(central), Epoch: "clean", Patience: time.Minute}
			rows, err := erasure.Run(t.Context())
			if err != nil || rows != len(nb.Tables())+2 {
				t.Fatalf("%d rows, %v", rows, err)
			}
			if diff := cmp.Diff(want, dump(t, central)); diff != "" {
				t.Errorf("the database (-before +after):\n%s", diff)
			}
			if rows, err := erasure.Run(t.Context()); err != nil || rows != 0 {
				t.Errorf("once more: %d rows, %v", rows, err)
			}
			if diff := cmp.Diff(want, dump(t, central)); diff != "" {
				t.Errorf("the database after a second one (-before +after):\n%s", diff)
			}
		})
	}
}

// TestEraseInParts: more rows than one transaction takes.
func TestEraseInParts(t *testing.T) {
	central := ovn.Start(t, false)
	nbctl(t, central, "init")
	want := dump(t, central)
	var commands []string
	for i := range maxBatch + 10 {
		commands = append(commands, fmt.Sprintf("-- create Address_Set name=our_%d MARK", i))
	}
	nbctl(t, central, strings.Join(commands, " "))
	rows, err := Erasure{Database: databaseOf(central), Epoch: "clean", Patience: time.Minute}.Run(t.Context())
	if err != nil || rows != maxBatch+10 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if diff := cmp.Diff(want, dump(t, central)); diff != "" {
		t.Errorf("the database (-before +after):\n%s", diff)
	}
}

// TestEraseWaits: a database that is away is waited for, no longer than one has patience; the error names its address.
func TestEraseWaits(t *testing.T) {
	central := ovn.Start(t, false)
	nbctl(t, central, "init")
	central.Kill("nb")
	if _, err := (Erasure{Database: databaseOf(central), Epoch: "clean", Patience: time.Second}).Run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), central.NBAddress()) {
		t.Errorf("without a database: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Erasure{Database: databaseOf(central), Epoch: "clean", Patience: time.Minute}.Run(t.Context())
		done <- err
	}()
	if err := central.StartDatabase(t.Context(), "nb"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("with one that came back: %v", err)
	}
}

// awaitNothing waits until nothing is missing.
func awaitNothing(t *testing.T, missing func() string) {
	t.Helper()
	wait.Eventually(t, wait.Patience, "missing", func(context.Context) error {
		if what := missing(); what != "" {
			return errors.New(what)
		}
		return nil
	})
}
