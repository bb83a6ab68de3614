package attach

import "github.com/atoll-net/atoll/pkg/domain/model"

// warnings are what was said of an object's keys: each once.
type warnings struct {
	uid  string
	said map[string]struct{}
}

// maxWarnings bounds what is said of one object in its life: whoever may write its annotations may write new ones for ever.
const maxWarnings = 32

// add returns those of the texts that were not said yet.
func (w *warnings) add(texts []string) []model.Problem {
	var out []model.Problem
	for _, text := range texts {
		if _, was := w.said[text]; was || len(w.said) >= maxWarnings {
			continue
		}
		if w.said == nil {
			w.said = map[string]struct{}{}
		}
		w.said[text] = struct{}{}
		out = append(out, model.Problem{Reason: model.ReasonUnknownKey, Message: text})
	}
	return out
}

// warnPod says of a pod's keys that they mean nothing. The pod goes on its way all the same.
func (s *Stage) warnPod(p *pod) {
	for _, problem := range p.warned.add(p.Unknown) {
		s.Sink.Event(p.Ref(), problem)
	}
}

// warnNamespace says the same of a namespace's; nil for one that has gone.
func (s *Stage) warnNamespace(name string, ns *model.Namespace) {
	if ns == nil || len(ns.Unknown) == 0 {
		if w, had := s.warned[name]; had && (ns == nil || w.uid != ns.UID) {
			delete(s.warned, name)
		}
		return
	}
	w := s.warned[name]
	if w.uid != ns.UID {
		w = warnings{uid: ns.UID}
	}
	for _, problem := range w.add(ns.Unknown) {
		s.Sink.Event(ns.Ref(), problem)
	}
	s.warned[name] = w
}
