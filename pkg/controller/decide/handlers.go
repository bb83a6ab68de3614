package decide

import (
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// handler hears what has become of rows: that the database holds what the graph wants for their owner, or why it refuses it. Either
// may be nil.
type handler struct {
	committed func(owner nb.Owner)
	refused   func(owner nb.Owner, problem model.Problem)
}

// Committed says that the database now holds what the graph wanted for owner. If it wants something else since, more follows.
func (s *State) Committed(owner nb.Owner) {
	if committed := s.handlers[owner.Kind].committed; committed != nil {
		committed(owner)
		s.report()
	}
}

// Connected says that what the database holds, those rows, is compared anew as a whole.
func (s *State) Connected(rows func(nb.Table) []nb.Row) {
	s.absent.Connected(rows)
	s.services.Connected(rows)
	s.policies.Connected()
	s.writePorts()
}

// Refused says that the database does not accept what the graph wants for owner.
func (s *State) Refused(owner nb.Owner, why string) {
	if refused := s.handlers[owner.Kind].refused; refused != nil {
		refused(owner, model.Problem{Reason: model.ReasonDatabaseRefused, Message: "OVN's northbound database refused it: " + why})
	}
	s.report()
}
