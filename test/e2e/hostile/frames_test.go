//go:build e2e

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/frames"
	"github.com/atoll-net/atoll/test/matrix"
)

// volley is frames that a pod sends to another, between two honest ones: frames of a port keep their order, so that those which have not
// arrived when the second honest one has never will.
type volley struct {
	from, to      *corev1.Pod
	table, honest frames.Table
}

// String is who sends to whom.
func (v volley) String() string {
	return fmt.Sprintf("%s/%s to %s/%s", v.from.Namespace, v.from.Name, v.to.Namespace, v.to.Name)
}

// fire sends the frames until the receiver has looked at a whole round, and returns which of them it has seen.
func (v volley) fire(ctx context.Context) (seen map[string]bool, err error) {
	token, err := matrix.NewToken()
	if err != nil {
		return nil, err
	}
	first, last := token+"-first.", token+"-last."
	names := slices.Sorted(maps.Keys(v.table))
	round := slices.Clone(v.honest["IPv4"](first))
	var texts []string
	for i, name := range names {
		text := fmt.Sprintf("%s-%d.", token, i)
		texts = append(texts, text)
		round = append(round, v.table[name](text)...)
	}
	round = append(round, v.honest["IPv4"](last)...)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		heard []string
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.err = tell(ctx, v.to, texts, &r.heard, "sniff", "-for", "20s", "-first", first, "-last", last)
		done <- r
	}()
	for {
		if err := tell(ctx, v.from, round, nil, "send"); err != nil {
			return nil, err
		}
		select {
		case r := <-done:
			seen := map[string]bool{}
			for i, name := range names {
				seen[name] = slices.Contains(r.heard, texts[i])
			}
			return seen, r.err
		default:
		}
	}
}

// tell runs netprobe in a pod with words on its standard input, and reads its answer.
func tell(ctx context.Context, p *corev1.Pod, words, answer any, command ...string) error {
	input, err := json.Marshal(words)
	if err != nil {
		return err
	}
	out, err := env.Exec(ctx, p.Namespace, p.Name, bytes.NewReader(input), append([]string{matrix.Program}, command...)...)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(out, answer)
}

// endOf is a pod's interface as its neighbours know it.
func endOf(t *testing.T, p *corev1.Pod) frames.End {
	t.Helper()
	a := cluster.AttachmentOf(t, p)
	mac, err := net.ParseMAC(a.MAC)
	if err != nil {
		t.Fatal(err)
	}
	return frames.End{MAC: mac, V4: a.Addresses[0].Addr(), V6: a.Addresses[1].Addr()}
}

// volleys are the same frames from pods that may send any, of a tenant's Network and of the default one, to neighbours on their node and
// on another.
func volleys(t *testing.T, table func(frames.Players) frames.Table) []volley {
	t.Helper()
	var out []volley
	for _, who := range [][3]string{
		{"attackers/strong", "attackers/near", "attackers/far"},
		{"attackers/strong", "attackers/far", "attackers/near"},
		{"plain/strong", "plain/far", "plain/weak"},
	} {
		from, to, third := member(t, who[0]), member(t, who[1]), member(t, who[2])
		routers := cluster.AttachmentOf(t, from).Gateways
		p := frames.Players{Sender: endOf(t, from), Receiver: endOf(t, to), Third: endOf(t, third), Router4: routers[0], Router6: routers[1]}
		out = append(out, volley{from: from, to: to, table: table(p), honest: p.Honest()})
		// What it has been told of its neighbours, it forgets.
		forget := []string{"nsenter", "--target", env.HostPID(t, to), "--net", "ip", "neigh", "flush", "dev", "eth0"}
		t.Cleanup(func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if out, err := env.Box.Exec(ctx, to.Spec.NodeName, forget...); err != nil {
				t.Errorf("flush the neighbours of %s: %v\n%s", to.Name, err, out)
			}
		})
	}
	return out
}

// holdsFrames is holds for volleys: each frame of each is an attack of its own.
func (d defence) holdsFrames(t *testing.T, volleys ...volley) {
	t.Helper()
	d.stands(t, func(ctx context.Context, judge func(got string) error) error {
		return each(volleys, func(v volley) error {
			seen, err := v.fire(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", v, err)
			}
			var wrong []error
			for _, name := range slices.Sorted(maps.Keys(seen)) {
				got := ""
				if seen[name] {
					got = "it arrives"
				}
				if err := judge(got); err != nil {
					wrong = append(wrong, fmt.Errorf("%s, %s: %w", name, v, err))
				}
			}
			return errors.Join(wrong...)
		})
	})
	for _, v := range volleys {
		t.Logf("held by %s, and by nothing else: %s: %s", d.name, v, strings.Join(slices.Sorted(maps.Keys(v.table)), "; "))
	}
}

// TestForgedFrames: pods that may send any frame send in the name of others, by Ethernet, IP, ARP and neighbour discovery, with the tags of
// VLANs, and as routers and DHCP servers, in a tenant's Network and in the default one. Pods without that right send no frames.
func TestForgedFrames(t *testing.T) {
	for _, name := range []string{"attackers/weak", "plain/weak"} {
		if err := tell(t.Context(), member(t, name), [][]byte{make([]byte, 60)}, nil,
			"send"); err == nil || !strings.Contains(err.Error(), "operation not permitted") {
			t.Errorf("%s sends a frame: %v", name, err)
		}
	}
	const attackers, plain = "attackers/a", "default/default"
	rows("port security", "lsp-set-port-security", "attackers/strong", "--", "lsp-set-port-security", "plain/strong").
		holdsFrames(t, volleys(t, frames.Players.Masks)...)
	rows("that switches pass no tags", "set", "Logical_Switch", attackers, "other_config:vlan-passthru=true",
		"--", "set", "Logical_Switch", plain, "other_config:vlan-passthru=true").holdsFrames(t, volleys(t, frames.Players.Tagged)...)
	// A node drops them on their way out of its pods, and on their way in from other nodes.
	drop := []string{"ovs-ofctl", "-O", "OpenFlow13", "del-flows", "br-int", "table=0,icmp6,icmp_type=134"}
	together("the guard of switches and bridges", onNode("n1", drop), onNode("n2", drop),
		rows("", "clear", "Logical_Switch", attackers, "acls", "--", "clear", "Logical_Switch", plain, "acls"),
	).holdsFrames(t, volleys(t, frames.Players.Servers)...)
}
