package attach

import (
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestWhatANetworkIsToldOfAPod: a Network's rows and status are looked at for what differs, and never for a stranger.
func TestWhatANetworkIsToldOfAPod(t *testing.T) {
	t.Parallel()
	problem := func(reason string) *model.Problem { return &model.Problem{Reason: reason} }
	held := &model.Attachment{Network: "red"}
	nowhere := verdict{}
	stranger := verdict{network: "red", problem: problem(model.ReasonNetworkNotFound)}
	waits := verdict{network: "red", faced: "n1"}
	full := verdict{network: "red", problem: problem(model.ReasonSubnetFull)}
	quota := verdict{network: "red", problem: problem(model.ReasonQuotaExceeded)}
	plugged := verdict{network: "red", attachment: held, counted: true, plugged: true}
	unplugged := verdict{network: "red", attachment: held, counted: true}
	lost := verdict{network: "red", attachment: held, counted: true, problem: problem(model.ReasonFaceLost)}
	homeless := verdict{network: "red", attachment: held, problem: problem(model.ReasonNetworkNotFound)}
	for name, test := range map[string]struct {
		from, to verdict
		beyond   bool
		want     bool
	}{
		"a stranger comes":                      {from: nowhere, to: stranger},
		"a stranger stays":                      {from: stranger, to: stranger},
		"a stranger goes":                       {from: stranger, to: nowhere},
		"a stranger waits for its node":         {from: stranger, to: waits},
		"a pod that waited is refused":          {from: waits, to: full, want: true},
		"the same refusal":                      {from: full, to: full},
		"another refusal":                       {from: full, to: quota, want: true},
		"a refused pod becomes a stranger":      {from: full, to: stranger, want: true},
		"a pod gets its port":                   {from: waits, to: plugged, want: true},
		"nothing is new":                        {from: plugged, to: plugged},
		"its namespace's notice is under way":   {from: plugged, to: unplugged},
		"it loses its face":                     {from: plugged, to: lost, want: true},
		"it finds it again":                     {from: lost, to: plugged, want: true},
		"its Network goes":                      {from: plugged, to: homeless, want: true},
		"a pod that is beyond is looked at":     {from: plugged, to: plugged, beyond: true, want: true},
		"a stranger that is beyond":             {from: stranger, to: stranger, beyond: true},
		"a pod that was attached goes for good": {from: plugged, to: nowhere, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Stage{books: map[string]*book{}}
			p := &pod{Pod: &model.Pod{Key: model.PodKey{Namespace: "a", Name: "p"}, Beyond: test.beyond}}
			b := s.book("red")
			b.enter(p, test.from)
			if got := b.enter(p, test.to); got != test.want {
				t.Errorf("the Network is told: %t, want %t", got, test.want)
			}
			if s.closeBook("red"); (s.books["red"] == nil) != (test.to == nowhere) {
				t.Errorf("book: %+v", s.books["red"])
			}
		})
	}
}
