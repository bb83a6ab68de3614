package visibility

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
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// Limits say what somebody is told who may ask about some namespaces alone. Objects of others are cut away before anything is
// explained, except for those of Networks that are compatible with theirs: of these they learn whether a packet gets there, as a
// real one would tell, and no names.
type Limits struct {
	// Namespaces are those that somebody may ask about, and Networks those where these have pods.
	Namespaces, Networks map[string]bool
	held                 snapshot.Held
	// peers are the Networks that the status of Networks names, and active those of them that reach these, or that these reach.
	peers, active map[string]bool
	// asked are the words of the question: who has said them knows them.
	asked string
}

// maxAsked bounds for how many namespaces of a Network it is asked whether they are his.
const maxAsked = 64

// Of finds what of a question somebody may be told. Its error is that he may not ask it, and is the same whether or not what he
// asks for is there.
func Of(held snapshot.Held, q question.Question, may question.MayAsk) (*Limits, error) {
	s := newLimits(held)
	s.asked = q.From.String() + " " + q.To.String()
	own := 0
	for _, end := range []question.End{q.From, q.To} {
		namespace := end.Pod.Namespace + end.Service.Namespace
		if namespace == "" {
			continue
		}
		allowed, err := may(namespace)
		switch {
		case err != nil:
			return nil, err
		case !allowed:
			return nil, &question.Error{
				Err: fmt.Errorf("you may not ask about pods and Services of namespace %s (create explanations.inspect.atoll.dev there). Next: ask by "+
					"the name or the address that your pod dials", namespace),
			}
		}
		own, s.Namespaces[namespace] = own+1, true
	}
	switch {
	case own == 0:
		return nil, &question.Error{Err: errors.New("one end must be a pod or a Service of a namespace that you may ask about")}
	case q.From.Address.IsValid():
		return nil, &question.Error{Err: errors.New("whose address that is, you may not ask. Next: name your pod as FROM")}
	case q.Network != "":
		return nil, &question.Error{
			Err: errors.New(
				"--network: you may not ask in which Network somebody has an address. Next: leave it out, and the " +
					"address is what it means to your pod"),
		}
	}
	s.settle()
	return s, s.neighbours(may)
}

// OfNamespaces limits answers to what somebody may be told who asks about some namespaces, and may.
func OfNamespaces(held snapshot.Held, namespaces []string, may question.MayAsk) (*Limits, error) {
	s := newLimits(held)
	for _, name := range namespaces {
		s.Namespaces[name] = true
	}
	s.settle()
	return s, s.neighbours(may)
}

func newLimits(held snapshot.Held) *Limits {
	return &Limits{held: held, Namespaces: map[string]bool{}, Networks: map[string]bool{}, peers: map[string]bool{}, active: map[string]bool{}}
}

// settle finds the Networks where his namespaces have pods.
func (s *Limits) settle() {
	for namespace := range s.Namespaces {
		if ns := s.held.Objects.Namespaces[namespace]; ns != nil {
			s.Networks[visible.Home(*ns, s.held.Default)] = true
		}
	}
	for key, p := range s.held.Objects.Pods {
		if a := s.held.Attachment(p); a != nil && s.Namespaces[key.Namespace] {
			s.Networks[a.Network] = true
		}
	}
}

// neighbours finds the other namespaces of his Networks that are his, and the Networks beside his.
func (s *Limits) neighbours(may question.MayAsk) error {
	asked := 0
	for _, name := range slices.Sorted(maps.Keys(s.held.Objects.Namespaces)) {
		if s.Namespaces[name] || !s.Networks[visible.Home(*s.held.Objects.Namespaces[name], s.held.Default)] || s.Networks[s.held.Default] {
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
			s.Namespaces[name] = true
		}
	}
	for name := range s.Networks {
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

// Cut leaves the objects that packets of the reader's pods may meet.
func (s *Limits) Cut(all model.Changes) model.Changes {
	out := model.NewChanges()
	out.Nodes, out.Reports, out.Tenants = all.Nodes, all.Reports, all.Tenants
	for name, n := range all.Networks {
		if s.keeps(name) || s.peers[name] || n.Type == model.Flat {
			out.Networks[name] = n
		}
	}
	for name, ns := range all.Namespaces {
		if s.keepsNamespace(all, name) {
			out.Namespaces[name] = ns
		}
	}
	for key, p := range all.Pods {
		if a := s.held.Attachment(p); s.Namespaces[key.Namespace] || a != nil && s.keeps(a.Network) {
			out.Pods[key] = p
		}
	}
	s.cutServices(all, out)
	for key, policy := range all.Policies {
		if key.Namespace == "" || s.keepsNamespace(all, key.Namespace) {
			out.Policies[key] = policy
		}
	}
	return out
}

// cutServices puts the Services that are left, and their slices, into out. Where kube-proxy does the rest, and for what everybody dials, no
// Service may be missing: otherwise the verdict would be another one.
func (s *Limits) cutServices(all, out model.Changes) {
	direct := s.direct(all)
	for key, service := range all.Services {
		ns := all.Namespaces[key.Namespace]
		if direct || s.keepsNamespace(all, key.Namespace) || ns != nil && visible.Home(*ns, s.held.Default) == s.held.Default {
			out.Services[key] = service
		}
	}
	for key, slice := range all.Slices {
		if out.Services[model.ServiceKey{Namespace: key.Namespace, Name: slice.Service}] != nil || s.keepsNamespace(all, key.Namespace) {
			out.Slices[key] = slice
		}
	}
}

// keeps reports whether objects of a Network are left.
func (s *Limits) keeps(network string) bool { return s.Networks[network] || s.active[network] }

// keepsNamespace reports whether objects of a namespace are left.
func (s *Limits) keepsNamespace(all model.Changes, name string) bool {
	ns := all.Namespaces[name]
	return ns != nil && (s.Namespaces[name] || s.keeps(visible.Home(*ns, s.held.Default)))
}

// direct reports whether pods of one of the reader's Networks reach Services by kube-proxy.
func (s *Limits) direct(all model.Changes) bool {
	for name, n := range all.Networks {
		if s.Networks[name] && (n.Type == model.Flat || n.Infra == model.InfraDirect) {
			return true
		}
	}
	return false
}

// wordPattern is what names, keys and addresses are made of.
var wordPattern = regexp.MustCompile(`[A-Za-z0-9_.:/-]+`)

// Tells reports whether a text has a name or an address that is not his to know. What he has asked with, he knows.
func (s *Limits) Tells(text string) bool {
	for _, word := range wordPattern.FindAllString(text, -1) {
		word = strings.Trim(word, ".:,-")
		if strings.Contains(" "+s.asked+" ", " "+word+" ") {
			continue
		}
		if a := AddressIn(word); a.IsValid() {
			if key, is := s.FaceOf(a); is && !s.Namespaces[key.Namespace] && !strings.Contains(s.asked, a.String()) {
				return true
			}
			continue
		}
		parts := strings.FieldsFunc(word, func(r rune) bool { return r == '/' || r == '.' || r == ':' })
		for _, part := range parts {
			// Alone, such a word may be an ordinary one; in a key it is a name.
			plain := len(parts) == 1 &&
				(part == s.held.Default ||
					s.held.Objects.Namespaces[part] != nil && visible.Home(*s.held.Objects.Namespaces[part], s.held.Default) == s.held.Default)
			if !plain && s.foreign(part) {
				return true
			}
		}
	}
	return false
}

func (s *Limits) foreign(name string) bool {
	if s.Namespaces[name] || s.Networks[name] || s.peers[name] && s.held.Objects.Namespaces[name] == nil {
		return false
	}
	return s.held.Objects.Networks[name] != nil || s.held.Objects.Namespaces[name] != nil
}

func (s *Limits) FaceOf(a netip.Addr) (model.PodKey, bool) {
	for key, p := range s.held.Objects.Pods {
		if at := s.held.Attachment(p); at != nil && slices.Contains(at.Faces, a) {
			return key, true
		}
	}
	return model.PodKey{}, false
}

// AddressIn is the address that a word is: alone, with a port, or as a range; not valid when it is none.
func AddressIn(word string) netip.Addr {
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
	HiddenStep   = "what belongs to somebody else decides here"
	HiddenChange = "what it rests on has just changed, or is not applied everywhere yet"
	HiddenNext   = "ask whoever runs what you dial: you may not be told more"
)

// Problem is an error that he may be told.
func (s *Limits) Problem(err error) error {
	if s.Tells(err.Error()) {
		return errors.New("that cannot be told: what you ask for is not there, or not yours")
	}
	return err
}
