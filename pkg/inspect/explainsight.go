package inspect

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
)

// sight is what somebody is told who may ask about some namespaces alone. Objects of others are cut away before anything is explained, except for those of
// Networks that are compatible with his: of these he learns whether a packet gets there, as a real one would tell him, and no names.
type sight struct {
	held Held
	// namespaces are those that he may ask about, networks those where these have pods, peers those that their status names, and active those of
	// them that reach his, or that his reach.
	namespaces, networks, peers, active map[string]bool
	// asked are the words of the question: who has said them knows them.
	asked string
}

// maxAsked bounds for how many namespaces of a Network it is asked whether they are his.
const maxAsked = 64

// look finds what of a question somebody may be told. Its error is that he may not ask it, and is the same whether or not what he asks for is there.
func look(held Held, q Question, may MayAsk) (*sight, error) {
	s := &sight{held: held, namespaces: map[string]bool{}, networks: map[string]bool{}, peers: map[string]bool{}, active: map[string]bool{}, asked: q.From.String() + " " + q.To.String()}
	own := 0
	for _, end := range []End{q.From, q.To} {
		namespace := end.Pod.Namespace + end.Service.Namespace
		if namespace == "" {
			continue
		}
		allowed, err := may(namespace)
		switch {
		case err != nil:
			return nil, err
		case !allowed:
			return nil, &QuestionError{fmt.Errorf("you may not ask about pods and Services of namespace %s (create explanations.inspect.atoll.dev there). Next: ask by the name or the address that your pod dials", namespace)}
		}
		own, s.namespaces[namespace] = own+1, true
	}
	switch {
	case own == 0:
		return nil, &QuestionError{errors.New("one end must be a pod or a Service of a namespace that you may ask about")}
	case q.From.Address.IsValid():
		return nil, &QuestionError{errors.New("whose address that is, you may not ask. Next: name your pod as FROM")}
	case q.Network != "":
		return nil, &QuestionError{errors.New("--network: you may not ask in which Network somebody has an address. Next: leave it out, and the address is what it means to your pod")}
	}
	s.settle()
	return s, s.neighbours(may)
}

// settle finds the Networks where his namespaces have pods.
func (s *sight) settle() {
	for namespace := range s.namespaces {
		if ns := s.held.Objects.Namespaces[namespace]; ns != nil {
			s.networks[visible.Home(*ns, s.held.Default)] = true
		}
	}
	for key, p := range s.held.Objects.Pods {
		if a := s.held.attachment(p); a != nil && s.namespaces[key.Namespace] {
			s.networks[a.Network] = true
		}
	}
}

// neighbours finds the other namespaces of his Networks that are his, and the Networks beside his.
func (s *sight) neighbours(may MayAsk) error {
	asked := 0
	for _, name := range slices.Sorted(maps.Keys(s.held.Objects.Namespaces)) {
		if s.namespaces[name] || !s.networks[visible.Home(*s.held.Objects.Namespaces[name], s.held.Default)] || s.networks[s.held.Default] {
			continue
		}
		if asked++; asked > maxAsked {
			break
		}
		allowed, err := may(name)
		if err != nil {
			return err
		}
		if allowed {
			s.namespaces[name] = true
		}
	}
	for name := range s.networks {
		n := s.held.Objects.Networks[name]
		if n == nil {
			continue
		}
		status, _ := s.held.Status(name, n.UID)
		for _, c := range status.Compatibility {
			s.peers[c.Network] = true
			s.active[c.Network] = s.active[c.Network] || c.State == string(model.CompatibilityActive)
		}
	}
	return nil
}

// cut leaves what his packets may meet.
func (s *sight) cut(all model.Changes) model.Changes {
	out := model.NewChanges()
	out.Nodes, out.Reports, out.Tenants = all.Nodes, all.Reports, all.Tenants
	keep := func(network string) bool { return s.networks[network] || s.active[network] }
	direct := false
	for name, n := range all.Networks {
		if keep(name) || s.peers[name] || n.Type == model.Flat {
			out.Networks[name] = n
		}
		direct = direct || s.networks[name] && (n.Type == model.Flat || n.Infra == model.InfraDirect)
	}
	namespace := func(name string) bool {
		ns := all.Namespaces[name]
		return ns != nil && (s.namespaces[name] || keep(visible.Home(*ns, s.held.Default)))
	}
	for name, ns := range all.Namespaces {
		if namespace(name) {
			out.Namespaces[name] = ns
		}
	}
	for key, p := range all.Pods {
		if a := s.held.attachment(p); s.namespaces[key.Namespace] || a != nil && keep(a.Network) {
			out.Pods[key] = p
		}
	}
	// Where kube-proxy does the rest, and for what everybody dials, no Service may be missing: with another verdict he would be told wrong.
	for key, service := range all.Services {
		if direct || namespace(key.Namespace) || all.Namespaces[key.Namespace] != nil && visible.Home(*all.Namespaces[key.Namespace], s.held.Default) == s.held.Default {
			out.Services[key] = service
		}
	}
	for key, slice := range all.Slices {
		if out.Services[model.ServiceKey{Namespace: key.Namespace, Name: slice.Service}] != nil || namespace(key.Namespace) {
			out.Slices[key] = slice
		}
	}
	for key, policy := range all.Policies {
		if key.Namespace == "" || namespace(key.Namespace) {
			out.Policies[key] = policy
		}
	}
	return out
}

// wordPattern is what names, keys and addresses are made of.
var wordPattern = regexp.MustCompile(`[A-Za-z0-9_.:/-]+`)

// tells reports whether a text has a name or an address that is not his to know. What he has asked with, he knows.
func (s *sight) tells(text string) bool {
	for _, word := range wordPattern.FindAllString(text, -1) {
		word = strings.Trim(word, ".:,-")
		if strings.Contains(" "+s.asked+" ", " "+word+" ") {
			continue
		}
		if a := addressIn(word); a.IsValid() {
			if key, is := s.faceOf(a); is && !s.namespaces[key.Namespace] && !strings.Contains(s.asked, a.String()) {
				return true
			}
			continue
		}
		parts := strings.FieldsFunc(word, func(r rune) bool { return r == '/' || r == '.' || r == ':' })
		for _, part := range parts {
			// Alone, such a word may be an ordinary one; in a key it is a name.
			plain := len(parts) == 1 && (part == s.held.Default || s.held.Objects.Namespaces[part] != nil && visible.Home(*s.held.Objects.Namespaces[part], s.held.Default) == s.held.Default)
			if !plain && s.foreign(part) {
				return true
			}
		}
	}
	return false
}

func (s *sight) foreign(name string) bool {
	if s.namespaces[name] || s.networks[name] || s.peers[name] && s.held.Objects.Namespaces[name] == nil {
		return false
	}
	return s.held.Objects.Networks[name] != nil || s.held.Objects.Namespaces[name] != nil
}

func (s *sight) faceOf(a netip.Addr) (model.PodKey, bool) {
	for key, p := range s.held.Objects.Pods {
		if at := s.held.attachment(p); at != nil && slices.Contains(at.Faces, a) {
			return key, true
		}
	}
	return model.PodKey{}, false
}

func addressIn(word string) netip.Addr {
	if at, err := netip.ParseAddrPort(word); err == nil {
		return at.Addr()
	}
	if p, err := netip.ParsePrefix(word); err == nil {
		return p.Addr()
	}
	a, _ := netip.ParseAddr(word)
	return a
}

// hidden is what is told of a step that is somebody else's.
const (
	hiddenStep   = "what belongs to somebody else decides here"
	hiddenChange = "what it rests on has just changed, or is not applied everywhere yet"
	hiddenNext   = "ask whoever runs what you dial: you may not be told more"
)

// explanation leaves what he may be told. That a packet gets there or not stays as it is.
func (s *sight) explanation(e Explanation) Explanation {
	hide := func(hops []Hop) []Hop {
		out := make([]Hop, 0, len(hops))
		for _, h := range hops {
			if h.Network != "" && !s.networks[h.Network] || s.tells(h.What) {
				h.Node, h.Network, h.What = "", "", hiddenStep
				if !h.OK {
					h.Next = hiddenNext
				}
			} else if s.tells(h.Next) {
				h.Next = hiddenNext
			}
			// Whose steps they are, is one step.
			if last := len(out) - 1; last >= 0 && h.What == hiddenStep && out[last].What == hiddenStep && out[last].OK {
				out[last].OK, out[last].Next, out[last].Layer = h.OK, h.Next, h.Layer
				continue
			}
			out = append(out, h)
		}
		return out
	}
	var ways []Way
	for _, w := range e.Ways {
		w.There, w.Back = hide(w.There), hide(w.Back)
		if s.tells(w.To) {
			w.To = "somebody else"
		}
		if s.tells(w.Dialled) {
			w.Dialled = ""
		}
		if s.tells(w.SeenAs) {
			w.SeenAs = ""
		}
		// How many endpoints somebody has, is his.
		if !slices.ContainsFunc(ways, func(other Way) bool { return sameWay(other, w) }) {
			ways = append(ways, w)
		}
	}
	// Nodes, and Networks that change, may be others'.
	if len(e.Changing) > 0 {
		e.Changing = []string{hiddenChange}
	}
	e.Ways, e.Sources = ways, e.Sources+"; what belongs to others is not told"
	e.Drift = slices.DeleteFunc(slices.Clone(e.Drift), func(d Difference) bool {
		mine := s.namespaces[d.Owner.Namespace] || d.Owner.Namespace == "" && s.networks[d.Owner.Name]
		return !mine || s.tells(strings.Join([]string{d.Owner.String(), d.Object, d.Want, d.Have}, " "))
	})
	return e
}

func sameWay(a, b Way) bool {
	return a.Dialled == b.Dialled && a.To == b.To && a.SeenAs == b.SeenAs && a.Reached == b.Reached && slices.Equal(a.There, b.There) && slices.Equal(a.Back, b.Back)
}

// problem is an error that he may be told.
func (s *sight) problem(err error) error {
	if s.tells(err.Error()) {
		return errors.New("that cannot be told: what you ask for is not there, or not yours")
	}
	return err
}
