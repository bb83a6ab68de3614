package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
)

// overdueAfter is how long a new pod's rows may wait for the database before the pod is told.
const overdueAfter = 4 * time.Second

// knowledge is how much of the database is known. What is not known is not claimed.
type knowledge struct {
	now time.Time
	// held: what the database holds has not been compared yet. Statuses wait until it has, since most are the same as
	// before.
	held bool
	// away is since when the database has not answered; zero while it does, or has not for a moment only.
	away time.Time
	// unwritten are new pods whose rows are not in the database, each since when.
	unwritten map[model.PodKey]time.Time
}

func newKnowledge() knowledge { return knowledge{unwritten: map[model.PodKey]time.Time{}} }

// Hold has statuses wait for Compared, or Disconnected.
func (s *State) Hold() { s.knowledge.held = true }

// Compared says that the database has been compared with what is wanted as a whole: what is reported from here on is known.
func (s *State) Compared() {
	s.knowledge.held = false
	if !s.knowledge.away.IsZero() {
		s.knowledge.away = time.Time{}
		s.touchAll()
	}
	s.reportGateways()
	s.report()
}

// Disconnected says that the database has been away since then: what it holds is not known until it has been compared again.
func (s *State) Disconnected(since time.Time) {
	s.knowledge.held = false
	if s.knowledge.away.IsZero() {
		s.knowledge.away = since
		for _, n := range s.networks {
			n.written = false
		}
		s.touchAll()
		s.gatewaysUnwritten()
	}
	s.report()
}

func (s *State) touchAll() {
	for name := range s.networks {
		s.touched[name] = struct{}{}
	}
}

// TellWaiting tells new pods that have waited for the database for some time what they wait for.
func (s *State) TellWaiting(now time.Time) {
	var late []model.PodKey
	for key, since := range s.knowledge.unwritten {
		if now.Sub(since) >= overdueAfter {
			late = append(late, key)
		}
	}
	slices.SortFunc(late, model.PodKey.Compare)
	for _, key := range late {
		delete(s.knowledge.unwritten, key)
		if p := s.pods[key]; p != nil {
			s.sink.PodEvent(key, p.UID, s.overdue())
		}
	}
}

// overdue is why a pod's rows are not in the database.
func (s *State) overdue() model.Problem {
	if away := s.knowledge.away; !away.IsZero() {
		return model.Problem{Reason: model.ReasonDatabaseUnreachable, Message: "the pod has its addresses and waits for its port: " + noAnswer(away)}
	}
	return model.Problem{
		Reason:  model.ReasonDatabaseBehind,
		Message: "the pod has its addresses and waits for its port: OVN's northbound database has not stored it yet; if this lasts, see the atoll-controller's log",
	}
}

// unreachable is a condition of which nobody knows while the database is away.
func unreachable(kind string, away time.Time) model.Condition {
	return model.Condition{Type: kind, Unknown: true, Reason: model.ReasonDatabaseUnreachable, Message: noAnswer(away)}
}

func noAnswer(away time.Time) string {
	return fmt.Sprintf("OVN's northbound database has not answered the atoll-controller since %s: look whether its ovsdb-server runs. Running pods keep their network",
		away.UTC().Format(time.RFC3339))
}
