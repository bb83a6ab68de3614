package policytrial_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
)

// costly are ten pods that each are a group, and a policy about them in some 100 KB.
func costly(shape func(*model.Rule)) policytrial.Question {
	q := many(100)
	for key := range q.Objects.Pods {
		if key.Namespace != "ns0" {
			delete(q.Objects.Pods, key)
		}
	}
	var rule model.Rule
	for i := range 10 {
		rule.Peers = append(rule.Peers, model.Peer{
			Pods: &match.Pods{
				Namespace: "ns0", Labels: match.Selector{
					Requirements: []match.Requirement{{Key: "own", Op: match.In, Values: []string{fmt.Sprint(10 * i)}}},
				},
			},
		})
	}
	rule.Verdict, rule.AnyPort = model.Allow, true
	shape(&rule)
	for _, p := range q.Policies {
		p.Rules = [2][]model.Rule{{rule}, {rule}}
	}
	return q
}

// looks count how often it is asked whether somebody wants the outcome, who has gone after some.
type looks struct{ has, most int }

func (l *looks) gone() error {
	if l.has++; l.has > l.most {
		return context.Canceled
	}
	return nil
}

// TestATrialHasAnEnd: what a policy of an ordinary size can ask of ten pods is more than a processor does in a minute. The work
// is counted where it is done: it ends at its bound, says so, and tells what was found by then; and it ends soon where nobody
// wants the outcome any more. The control is a policy that asks little, of which all is compared.
func TestATrialHasAnEnd(t *testing.T) {
	t.Parallel()
	const bound, every = 20_000_000, 4096
	for name, shape := range map[string]func(*model.Rule){
		"ports": func(r *model.Rule) {
			r.AnyPort = false
			for i := range 3500 {
				port := uint16(2*i + 1)
				r.Ports = append(r.Ports, model.PolicyPort{Protocol: model.TCP, First: port, Last: port})
			}
		},
		"ports of anybody": func(r *model.Rule) {
			r.AnyPort, r.AnyPeer, r.Peers = false, true, nil
			for i := range 3500 {
				port := uint16(2*i + 1)
				r.Ports = append(r.Ports, model.PolicyPort{Protocol: model.TCP, First: port, Last: port})
			}
		},
		"blocks": func(r *model.Rule) {
			for i := range 4000 {
				for _, bits := range []int{32, 24} {
					cidr, _ := netip.AddrFrom4([4]byte{203, byte(i >> 8), byte(i), 1}).Prefix(bits)
					r.Peers = append(r.Peers, model.Peer{Block: &model.Block{CIDR: cidr}})
				}
			}
		},
		"the control": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if shape == nil {
				o, err := policytrial.Compare(costly(func(*model.Rule) {}))
				if err != nil || o.Cut != "" || o.Selected != 10 {
					t.Errorf("%d selected, cut: %q, %v", o.Selected, o.Cut, err)
				}
				return
			}
			began, wanted, q := time.Now(), &looks{most: 2 * bound / every}, costly(shape)
			q.Gone = wanted.gone
			o, err := policytrial.Compare(q)
			t.Logf("%s: %d verdicts, asked %d times", time.Since(began), o.Judged, wanted.has)
			if err != nil || !strings.Contains(o.Cut, "it was ended after") || wanted.has > bound/every+10 {
				t.Errorf("cut: %q, %v, asked %d times", o.Cut, err, wanted.has)
			}
			wanted = &looks{most: 10}
			q.Gone = wanted.gone
			if o, err = policytrial.Compare(q); !errors.Is(err, context.Canceled) || wanted.has > wanted.most+1 || o.Judged > 20*every {
				t.Errorf("who has gone: %v after %d verdicts, asked %d times", err, o.Judged, wanted.has)
			}
		})
	}
}
