package flows

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/ipfix"
)

// known are flows that are on, with two Networks that have the same addresses.
func known(lives func(string) bool) *Flows {
	f := New(Config{Lives: lives, Log: slog.New(slog.DiscardHandler), Southbound: func(context.Context, func(*ovsdb.Reader) error) error {
		return errors.New("away")
	}})
	f.on = true
	address := netip.MustParseAddr("10.0.0.5")
	f.names.learn(ovsdb.Sampled{
		Points: map[uint32]nb.Origin{
			7: {Network: "red", Policy: "NetworkPolicy/red/friends", Direction: "Ingress", Rule: "0", Verdict: "allow"},
			8: {Network: "blue", Policy: nb.Isolation, Direction: "Ingress", Verdict: "drop"},
			9: {Policy: nb.Guard, Direction: "Egress", Verdict: "drop"},
		},
		Switches: map[uint32]string{1: "red/a", 2: "blue/a"},
		Ports:    map[ovsdb.PortAddress]string{{Datapath: 1, Address: address}: "red/web", {Datapath: 2, Address: address}: "blue/web"},
	}, f.store, began)
	return f
}

func all(string) bool { return true }

func sampleOf(datapath, point uint32) ipfix.Record {
	r := record(datapath, 5)
	r.Point = point
	return r
}

// A rule of another Network decides nothing, whoever says so; what is the same in all Networks does; an address is a pod's in its
// Network alone.
func TestNetworksAreTheirDatapaths(t *testing.T) {
	t.Parallel()
	f := known(all)
	now := time.Now()
	f.add([]ipfix.Record{sampleOf(1, 7), sampleOf(1, 8), sampleOf(2, 8), sampleOf(2, 9), sampleOf(3, 7), sampleOf(1, 77)}, now)
	got := map[string]model.Flow{}
	for _, flow := range f.all(model.FlowQuestion{}, time.Now()) {
		got[flow.Network+" "+flow.Policy] = flow
	}
	for name, pod := range map[string]string{
		"red NetworkPolicy/red/friends": "red/web", "blue isolation": "blue/web", "blue guard": "", "red ": "", " ": "",
	} {
		if flow, there := got[name]; !there || flow.Pod != pod {
			t.Errorf("%q: %+v", name, flow)
		}
	}
	for _, test := range []struct {
		q    model.FlowQuestion
		want int
	}{
		{model.FlowQuestion{Networks: []string{"red"}}, 3},
		{model.FlowQuestion{Networks: []string{"blue"}}, 2},
		{model.FlowQuestion{Networks: []string{""}}, 0},
		{model.FlowQuestion{Networks: []string{}}, 0},
		{model.FlowQuestion{Namespaces: []string{"blue"}}, 1},
		{model.FlowQuestion{Namespaces: []string{}}, 0},
		{model.FlowQuestion{Drops: true}, 2},
		{model.FlowQuestion{Pod: "web"}, 2},
		{model.FlowQuestion{}, 6},
	} {
		if n := len(f.all(test.q, now)); n != test.want {
			t.Errorf("%+v: %d flows, want %d", test.q, n, test.want)
		}
	}
}

// A question has two ends: the age of the oldest, and that of the newest.
func TestAgesOfFlows(t *testing.T) {
	t.Parallel()
	f := known(all)
	now := time.Now()
	for age := range 4 {
		f.add([]ipfix.Record{sampleOf(1, 7)}, now.Add(time.Duration(age-3)*10*time.Minute))
	}
	for q, want := range map[[2]time.Duration]int{
		{}: 4, {25 * time.Minute}: 3, {0, 5 * time.Minute}: 3, {25 * time.Minute, 5 * time.Minute}: 2, {10 * time.Minute, 10 * time.Minute}: 1,
		{5 * time.Minute, 9 * time.Minute}: 0,
	} {
		if got := f.all(model.FlowQuestion{Since: q[0], Until: q[1]}, now); len(got) != want {
			t.Errorf("%v: %d flows, want %d", q, len(got), want)
		}
	}
}

// A pod that has gone gives its name to nobody who has its address after it.
func TestAPodThatHasGoneNamesNobody(t *testing.T) {
	t.Parallel()
	f := known(func(string) bool { return false })
	f.names.missed = false
	f.add([]ipfix.Record{sampleOf(1, 7)}, time.Now())
	if got := f.all(model.FlowQuestion{}, time.Now()); len(got) != 1 || got[0].Pod != "" || !f.names.missed {
		t.Errorf("%+v, %v", got, f.names.missed)
	}
}

// While the southbound database cannot be read, whoever asks is told what is known, and then that it is not all: never that there is
// nothing. Who follows
// is told when it begins. Where all is known, or nothing came, the database does not matter.
func TestFlowsThatNobodyCanName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		records []ipfix.Record
		follow  bool
		flows   int
		unnamed bool
	}{
		"nothing came":                     {},
		"all is known":                     {records: []ipfix.Record{sampleOf(1, 7)}, flows: 1},
		"an unknown switch":                {records: []ipfix.Record{sampleOf(1, 7), sampleOf(3, 7)}, flows: 1, unnamed: true},
		"an unknown rule":                  {records: []ipfix.Record{sampleOf(1, 77)}, flows: 1, unnamed: true},
		"only an unknown switch":           {records: []ipfix.Record{sampleOf(3, 7)}, unnamed: true},
		"an unknown switch, and followers": {records: []ipfix.Record{sampleOf(3, 7)}, follow: true, unnamed: true},
	} {
		f := known(all)
		f.add(test.records, time.Now())
		a := askerOf(t, model.FlowQuestion{Networks: []string{"red"}, Follow: test.follow})
		f.answer(t.Context(), a, time.Now())
		if found := <-a.answers; len(found) != test.flows {
			t.Errorf("%s: it is told of %v", name, found)
		}
		var err error
		select {
		case err = <-a.err:
		default:
		}
		if errors.Is(err, ErrUnnamed) != test.unnamed || err != nil && !strings.Contains(err.Error(), "away") {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
	// One that follows already is told as soon as it is so.
	f := known(all)
	a := askerOf(t, model.FlowQuestion{Follow: true})
	f.answer(t.Context(), a, time.Now())
	f.add([]ipfix.Record{sampleOf(3, 7)}, time.Now())
	f.tick(t.Context(), time.Now().Add(time.Minute))
	select {
	case err := <-a.err:
		if !errors.Is(err, ErrUnnamed) {
			t.Errorf("who follows is told %v", err)
		}
	default:
		t.Error("who follows is told nothing")
	}
}

func askerOf(t *testing.T, q model.FlowQuestion) *asker {
	t.Helper()
	return &asker{question: q, answers: make(chan []model.Flow, behind), err: make(chan error, 1), gone: t.Context().Done()}
}

// Who asks by HTTP hears lines of JSON, or why there are none.
func TestFlowsByHTTP(t *testing.T) {
	t.Parallel()
	f := known(all)
	f.add([]ipfix.Record{sampleOf(1, 7), sampleOf(2, 8)}, time.Now())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case a := <-f.asked:
				f.answer(ctx, a, time.Now())
			case on := <-f.wanted:
				f.on = on
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		stop()
		<-done
	}()
	get := func(query string) *httptest.ResponseRecorder {
		page := httptest.NewRecorder()
		f.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/flows?"+query, nil))
		return page
	}
	page := get("network=red&since=10m")
	var flow model.Flow
	if err := json.Unmarshal(page.Body.Bytes(), &flow); err != nil || flow.Pod != "red/web" || flow.Connections != 1 {
		t.Errorf("%v: %s", err, page.Body)
	}
	for query, want := range map[string]int{
		"since=soon": http.StatusBadRequest, "drops=maybe": http.StatusBadRequest, "network=green": http.StatusOK,
	} {
		if page := get(query); page.Code != want {
			t.Errorf("%s: %d %s", query, page.Code, page.Body)
		}
	}
	f.Want(false)
	for len(f.wanted) > 0 {
		// Taken before anything else is asked.
		if page := get("network=green"); page.Code != http.StatusOK && page.Code != http.StatusConflict {
			t.Fatal(page.Code)
		}
	}
	if page := get(""); page.Code != http.StatusConflict {
		t.Errorf("while nothing is sampled: %d %s", page.Code, page.Body)
	}
}

// Who follows and does not keep up is sent away, and so is one too many; the others go on.
func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	f := known(all)
	join := func(gone chan struct{}) *asker {
		a := &asker{question: model.FlowQuestion{Follow: true}, answers: make(chan []model.Flow, behind), err: make(chan error, 1), gone: gone}
		f.answer(t.Context(), a, time.Now())
		return a
	}
	left := make(chan struct{})
	slow, quick, away := join(nil), join(nil), join(left)
	<-quick.answers
	close(left)
	for range behind {
		f.add([]ipfix.Record{sampleOf(1, 7)}, time.Now())
		f.tell(time.Now())
		if some := <-quick.answers; len(some) != 1 || some[0].Pod != "red/web" {
			t.Errorf("%+v", some)
		}
	}
	if _, there := f.followers[away]; there || len(f.followers) != 1 {
		t.Errorf("%d followers", len(f.followers))
	}
	if err := <-slow.err; !errors.Is(err, errBehind) {
		t.Errorf("got %v", err)
	}
	last := make(chan struct{})
	join(last)
	for len(f.followers) < maxFollowers {
		join(nil)
	}
	if err := <-join(nil).err; !errors.Is(err, errFollowers) {
		t.Errorf("got %v", err)
	}
	// Who leaves makes room at once.
	close(last)
	if next := join(nil); len(next.err) > 0 || len(f.followers) != maxFollowers {
		t.Errorf("there is no room for who comes after one has left: %d followers", len(f.followers))
	}
}

// A follower that goes on where an earlier one ended hears each flow that was told meanwhile, once. Flows that nobody has
// followed lately are not kept.
func TestFollowersGoOn(t *testing.T) {
	t.Parallel()
	f := known(all)
	now := time.Now()
	join := func(again time.Duration) *asker {
		a := askerOf(t, model.FlowQuestion{Follow: true, Since: time.Nanosecond, Again: again})
		f.answer(t.Context(), a, now)
		return a
	}
	second := func() {
		now = now.Add(time.Second)
		f.add([]ipfix.Record{sampleOf(1, 7)}, now)
		f.tell(now)
	}
	var first []model.Flow
	one := join(0)
	<-one.answers
	for range 3 {
		second()
		first = append(first, <-one.answers...)
	}
	gone := make(chan struct{})
	close(gone)
	one.gone = gone
	second()
	// Nobody follows now, and it goes on.
	second()
	two := join(10 * time.Second)
	told := <-two.answers
	if len(first) != 3 || len(told) != 5 {
		t.Fatalf("one is told of %d, the next of %d", len(first), len(told))
	}
	for i, flow := range first {
		if told[i] != flow {
			t.Errorf("one is told %+v, the next %+v", flow, told[i])
		}
	}
	second()
	if more := <-two.answers; len(more) != 1 || more[0].Last != now {
		t.Errorf("then it is told of %+v", more)
	}
	if short := <-join(1500 * time.Millisecond).answers; len(short) != 2 {
		t.Errorf("of the last second and a half are told %d", len(short))
	}
	for range maxTold {
		f.fresh[freshKey{datapath: 1, key: key{port: uint16(len(f.fresh))}}] = &count{last: now}
		if len(f.fresh) == maxFresh {
			f.tell(now)
		}
	}
	if f.tell(now); len(f.told) > maxTold {
		t.Errorf("%d rows are kept", len(f.told))
	}
	now = now.Add(2 * toldTime)
	f.tell(now)
	if len(f.told) != 0 {
		t.Errorf("of what is old are kept %d", len(f.told))
	}
	f.followers, f.followed = map[*asker]struct{}{}, time.Time{}
	if second(); len(f.told) != 0 {
		t.Error("it is kept what nobody follows")
	}
}
