package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/test/inspected"
)

// explainTo explains for an asker who may ask about some namespaces.
func explainTo(w *inspected.World, held snapshot.Held, q question.Question, own ...string) (Explanation, error) {
	limits, err := visibility.Of(held, q, func(namespace string) (bool, error) { return slices.Contains(own, namespace), nil })
	if err != nil {
		return Explanation{}, err
	}
	world := makeWorld(w.Rows, limits.Cut(w.Objects), inspected.Explained(), nil)
	world.whole = w.Objects
	e := &explainer{World: world, q: q}
	answer, err := e.answer()
	if err != nil {
		return answer, limits.Problem(err)
	}
	return toldBySight(limits, answer), nil
}

// TestOthersAreNotTold: an asker with one namespace learns about any address only what a packet would show: whether it arrives. The
// verdict equals that for an asker who may ask about everything. No word of the answer names an object in another namespace.
func TestOthersAreNotTold(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	held := w.HeldOf()
	var addresses []netip.Addr
	for _, p := range w.Objects.Pods {
		for _, a := range p.Assigned {
			addresses = append(addresses, a.Faces...)
			addresses = append(addresses, addressesOf(a.Addresses)...)
		}
	}
	for _, s := range w.Objects.Services {
		addresses = append(addresses, s.ClusterIPs...)
	}
	asked, reached, leaks := 0, 0, 0
	for _, own := range []string{"red", "blue", "mute", "own", "west", "foreign"} {
		from := model.PodKey{Namespace: own, Name: "client"}
		if own == "red" || own == "own" {
			from.Name = "web"
		}
		for _, a := range addresses {
			q := question.Question{From: question.End{Pod: from}, To: question.End{Address: a}, Protocol: model.TCP, Port: 80}
			all, errAll := Explain(explainable(w), q)
			some, err := explainTo(w, held, q, own)
			if (errAll == nil) != (err == nil) || all.Reached != some.Reached {
				t.Errorf("%s to %s: all is told %t (%v), he %t (%v)\n%s\n%s", from, a, all.Reached, errAll, some.Reached, err, all.Verdict(),
					some.Verdict())
				continue
			}
			asked++
			if some.Reached {
				reached++
			}
			if named := namesOthers(w, some, own); len(named) > 0 {
				t.Errorf("%s to %s: he is told of %v: %s", from, a, named, some.Verdict())
			}
			if len(namesOthers(w, all, own)) > 0 {
				leaks++
			}
		}
	}
	if t.Logf("%d questions, %d reached; with every right, %d name others", asked, reached, leaks); asked < 200 || reached < 10 || leaks < 50 {
		t.Error("that shows nothing")
	}
}

// namesOthers returns the other namespaces' objects that an explanation names.
func namesOthers(w *inspected.World, e Explanation, own string) (out []string) {
	text, err := json.Marshal(e)
	if err != nil {
		w.T.Fatal(err)
	}
	for name := range w.Objects.Namespaces {
		if name != own && strings.Contains(string(text), name+"/") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestWhatIsNotThereIsAsWhatIsNotHis: an asker cannot find out whether another tenant's object exists.
func TestWhatIsNotThereIsAsWhatIsNotHis(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	held := w.HeldOf()
	tell := func(question, own string) string {
		q, err := questionOf(question)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := explainTo(w, held, q, own)
		if err != nil {
			return err.Error()
		}
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Verdict() + string(text)
	}
	stranger, nobody := w.Objects.Pods[model.PodKey{Namespace: "green", Name: "client"}].Assigned[0].Faces[0].String(), "100.64.77.77"
	for _, c := range []struct{ there, not, thing, nothing string }{
		{"blue/client mute/client tcp 80", "blue/client mute/nobody tcp 80", "mute/client", "mute/nobody"},
		{"blue/client mute/client tcp 80", "blue/client none/client tcp 80", "mute", "none"},
		{"blue/client svc/mute/web tcp 80", "blue/client svc/none/web tcp 80", "mute", "none"},
		{"blue/client names.green.svc tcp 53", "blue/client names.nobody.svc tcp 53", "green", "nobody"},
		{fmt.Sprintf("blue/client %s tcp 80", stranger), fmt.Sprintf("blue/client %s tcp 80", nobody), stranger, nobody},
	} {
		a, b := tell(c.there, "blue"), tell(c.not, "blue")
		if strings.ReplaceAll(a, c.thing, "X") != strings.ReplaceAll(b, c.nothing, "X") {
			t.Errorf("%s:\n%s\n%s:\n%s", c.there, a, c.not, b)
		}
	}
	// The control: an asker with the right gets the details.
	if text := tell("blue/client names.green.svc tcp 53", "blue"); strings.Contains(text, "Service green/names") {
		t.Error(text)
	}
	q, err := questionOf("blue/client names.green.svc tcp 53")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := Explain(explainable(w), q); err != nil || !strings.Contains(all.Verdict(), "Service green/names is of Network green") {
		t.Errorf("%s %v", all.Verdict(), err)
	}
}

// TestQuestionsThatAreNotHis: each is refused for its own reason.
func TestQuestionsThatAreNotHis(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	held := w.HeldOf()
	for question, want := range map[string]string{
		"red/web blue/client tcp 80":           "namespace red",
		"blue/client red/web tcp 80":           "namespace red",
		"node/n1 outside icmp 0":               "nothing of Atoll's",
		"10.0.0.2 blue/client tcp 80":          "name your pod as FROM",
		"blue/client 10.0.0.2 tcp 80 red":      "--network",
		"node/n1 100.64.0.2 tcp 80":            "one end must be",
		"blue/client blue/client tcp 80":       "both ends are the same",
		"blue/client svc/kube-system/x tcp 80": "namespace kube-system",
	} {
		q, err := questionOf(question)
		if err == nil {
			_, err = explainTo(w, held, q, "blue")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", question, err)
		}
	}
	unknown := errors.New("nobody says")
	q, err := questionOf("blue/client outside tcp 80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := visibility.Of(held, q, func(string) (bool, error) { return false, unknown }); !errors.Is(err, unknown) {
		t.Errorf("when nobody says who may: %v", err)
	}
}

// TestALabelIsMissing: when a policy isolates the target, the answer names the label that the sender lacks.
func TestALabelIsMissing(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	if e, err := explainIn(w, "red/web red/locked tcp 5432"); err != nil ||
		!strings.Contains(e.Verdict(), "would allow it if pod red/web had the label app=friend") {
		t.Errorf("%s %v", e.Verdict(), err)
	}
	if e, err := explainIn(w, "red/friend red/locked tcp 5432"); err != nil || !e.Reached {
		t.Errorf("with it: %s %v", e.Verdict(), err)
	}
}
