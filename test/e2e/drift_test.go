//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/wait"
)

// backWithin is what a row that was deleted by hand may take to come back.
const backWithin = time.Second

// TestDriftIsRepaired damages rows of every kind by hand. An observer of the database takes the time from the start
// of the command that does it until all rows are as before; the command's own time is part of it.
func TestDriftIsRepaired(t *testing.T) {
	list, err := env.Clients.Kube.CoreV1().Pods("red").List(t.Context(), metav1.ListOptions{LabelSelector: "app=same"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d pods red/same", len(list.Items))
	}
	port := "red/" + list.Items[0].Name
	// Somebody else's rows: they have to survive all repairs.
	env.NBCtl(t, "ls-add", "foreign", "--", "lsp-add", "foreign", "foreign-port")
	env.NBCtl(t, "lsp-add", "red/front", "foreign-guest")
	t.Cleanup(func() {
		env.NBCtl(t, "--if-exists", "lsp-del", "foreign-guest", "--", "--if-exists", "ls-del", "foreign")
	})
	cluster.Eventually(t, cluster.Patience, "the foreign rows", func(context.Context) error {
		if env.NB.Port(t, "foreign-guest") == nil || env.NB.Port(t, "foreign-port") == nil {
			return errors.New("not seen")
		}
		return nil
	})

	face := cluster.AttachmentOf(t, &list.Items[0]).Faces[0].String()
	tests := append(damages(port, env.NB.Group(t, "red")), damagesToFace(face, env.NB.Leads(t, face))...)
	env.settled(t)
	worst := time.Duration(0)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := env.dump(t)
			var began time.Time
			var damaged bool
			wait.Within(t, backWithin, "the rows as before", func() { began, damaged = time.Now(), false }, func(context.Context) error {
				// The promise counts from before the command, which is therefore part of the first look.
				if !damaged {
					env.NBCtl(t, test.command...)
					damaged = true
				}
				if now := env.dump(t); !maps.Equal(before, now) {
					return fmt.Errorf("difference (-want +got):\n%s", cmp.Diff(before, now))
				}
				return nil
			})
			took := time.Since(began)
			t.Logf("back %s after the command began", took.Round(time.Millisecond))
			worst = max(worst, took)
		})
	}
	t.Logf("%d kinds of damage, the worst was repaired after %s", len(tests), worst.Round(time.Millisecond))

	// One after the other without a pause, so that repairs and new damage cross.
	before := env.dump(t)
	for range 3 {
		for _, test := range tests {
			// What has not come back yet cannot be damaged: that is no error.
			ctx, cancel := cluster.AfterTest()
			_, _ = env.Ctl(ctx, "ovn-nbctl", env.NBAddress(), test.command...)
			cancel()
		}
	}
	env.waitRows(t, 10*backWithin, before)
	env.checkMatrix(t, matrixWithin)
}

// damage is a command that harms our rows.
type damage struct {
	name    string
	command []string
}

// damages are those of every kind: to the Network red, its load balancer group, one of its pods' ports, its Service web,
// and to a node.
func damages(port, group string) []damage {
	const (
		service = "red/red/web:tcp"
		node    = "default:node:n2"
	)
	return []damage{
		{"delete a pod's port", []string{"lsp-del", port}},
		{"delete a switch", []string{"ls-del", "red/back"}},
		{"delete a router", []string{"lr-del", "red"}},
		{"delete a router's port", []string{"lrp-del", "red/front:gateway"}},
		{"delete the switch's side of it", []string{"lsp-del", "red/front:router"}},
		{"delete a router and its switch", []string{"lr-del", "red", "--", "ls-del", "red/back"}},
		{"clear addresses", []string{"lsp-set-addresses", port}},
		{"tamper with addresses", []string{"lsp-set-addresses", port, "02:00:00:00:00:01 10.0.0.99"}},
		{"open port security", []string{"lsp-set-port-security", port}},
		{"take over another's address", []string{"lsp-set-port-security", port, "0a:58:0a:00:00:01 10.0.0.1"}},
		{"move a port to another node", []string{"set", "Logical_Switch_Port", port, "options:requested-chassis=n3"}},
		{"clear options", []string{"clear", "Logical_Switch_Port", port, "options"}},
		{"disown a port", []string{"clear", "Logical_Switch_Port", port, "external_ids"}},
		{"disown a router", []string{"clear", "Logical_Router", "red", "external_ids"}},
		{"disown a switch", []string{"clear", "Logical_Switch", "red/back", "external_ids"}},
		{"change a router port's networks", []string{"set", "Logical_Router_Port", "red/front:gateway", "networks=192.168.9.1/24"}},
		{"rename a switch", []string{"set", "Logical_Switch", "red/back", "name=mine"}},
		{"empty a switch", []string{"clear", "Logical_Switch", "red/back", "ports"}},
		{"empty a router", []string{"clear", "Logical_Router", "red", "ports"}},
		{"delete the switch at the edge", []string{"ls-del", "red:edge"}},
		{"delete the port of the portholes", []string{"lsp-del", "red:porthole"}},
		{"bind the port of the portholes to a node", []string{"lsp-set-type", "red:porthole", ""}},
		{"tamper with the portholes' addresses", []string{"lsp-set-addresses", "red:porthole", "02:00:00:00:00:01 169.254.100.2"}},
		{"delete the router's port at the edge", []string{"lrp-del", "red:edge"}},
		{"delete the routes out", []string{"lr-route-del", "red"}},
		{"add to the routes out", []string{
			"--", "--id=@r", "create", "Logical_Router_Static_Route", "ip_prefix=8.8.8.8/32", "nexthop=10.0.0.10",
			"external_ids:atoll.dev/owner=Network/red", "external_ids:atoll.dev/network=red", "--", "add", "Logical_Router", "red", "static_routes",
			"@r",
		}},
		{"delete a load balancer", []string{"lb-del", service}},
		{"lead a Service elsewhere", []string{"set", "Load_Balancer", service, `vips:"10.96.0.1:443"="10.0.0.10:8080"`}},
		{"forget a Service's places", []string{"clear", "Load_Balancer", service, "vips"}},
		{"disown a load balancer", []string{"clear", "Load_Balancer", service, "external_ids"}},
		{"empty a load balancer group", []string{"clear", "Load_Balancer_Group", group, "load_balancer"}},
		{"rename a load balancer group", []string{"set", "Load_Balancer_Group", group, "name=mine"}},
		{"take a group from a switch", []string{"clear", "Logical_Switch", "red/front", "load_balancer_group"}},
		{"delete a node's port", []string{"lsp-del", node}},
		{"move a node's port", []string{"set", "Logical_Switch_Port", node, "options:requested-chassis=n3"}},
		{"disown a node's port", []string{"clear", "Logical_Switch_Port", node, "external_ids"}},
		{"delete the nodes' routes", []string{"lr-route-del", "default"}},
		{"empty the default router", []string{"clear", "Logical_Router", "default", "static_routes"}},
	}
}

// damagesToFace are those to a pod's face and to the load balancer that it is in.
func damagesToFace(face, balancer string) []damage {
	return []damage{
		{"lead a face elsewhere", []string{"set", "Load_Balancer", balancer, fmt.Sprintf("vips:%q=10.0.1.99", face)}},
		{"forget a face", []string{"remove", "Load_Balancer", balancer, "vips", fmt.Sprintf("%q", face)}},
		{"add a face", []string{"set", "Load_Balancer", balancer, `vips:"100.127.255.1"=10.0.0.10`}},
		{"delete the faces", []string{"lb-del", balancer}},
	}
}
