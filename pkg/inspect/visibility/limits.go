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

// Limits restrict answers for an asker who may ask about some namespaces only. Other tenants' objects are removed before anything
// is explained. Objects of compatible Networks stay: the asker learns whether a packet arrives there, as a real packet would show,
// but no names.
type Limits struct {
	// Namespaces are the namespaces that the asker may ask about. Networks are the Networks of their pods.
	Namespaces, Networks map[string]bool
	held                 snapshot.Held
	// peers are the Networks that the status of these Networks names. active are those among them that these Networks reach, or that
	// reach these.
	peers, active map[string]bool
	// asked are the words of the question. They need not be hidden: the asker knows them.
	asked string
}

// maxAsked bounds the neighbouring namespaces for which RBAC is asked whether the asker may ask about them.
const maxAsked = 64

// Of returns the limits for a question. Its error says that the asker may not ask it. The error is the same whether or not the
// objects of the question exist.
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

// OfNamespaces returns the limits for an asker who asks about some namespaces, and may ask about these.
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

// settle finds the Networks of the asker's namespaces and of their pods.
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

// neighbours finds the other namespaces of the asker's Networks that the asker may ask about, and the peers of these Networks.
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

// Cut returns only the objects that packets of the asker's pods may meet.
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

// cutServices copies the Services that the asker's packets may meet, and their slices, into out. Services that every pod dials, and
// those that kube-proxy serves to the asker's pods, must not be missing: the verdict would differ.
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

// keeps reports whether Cut keeps the objects of a Network.
func (s *Limits) keeps(network string) bool { return s.Networks[network] || s.active[network] }

// keepsNamespace reports whether Cut keeps the objects of a namespace.
func (s *Limits) keepsNamespace(all model.Changes, name string) bool {
	ns := all.Namespaces[name]
	return ns != nil && (s.Namespaces[name] || s.keeps(visible.Home(*ns, s.held.Default)))
}

// direct reports whether the pods of any of the asker's Networks reach Services by kube-proxy.
func (s *Limits) direct(all model.Changes) bool {
	for name, n := range all.Networks {
		if s.Networks[name] && (n.Type == model.Flat || n.Infra == model.InfraDirect) {
			return true
		}
	}
	return false
}

// wordPattern matches names, keys and addresses.
var wordPattern = regexp.MustCompile(`[A-Za-z0-9_.:/-]+`)

// Tells reports whether a text has a name or an address that must be hidden from the asker. Words of the question need not be hidden.
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
			// Alone, the name of the default Network, or of a namespace in it, may be an ordinary word. Within a key it is a name.
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

// AddressIn returns the address in a word: an address alone, with a port, or of a prefix. It is not valid when there is none.
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

// The texts in place of a step that belongs to another tenant.
const (
	HiddenStep   = "what belongs to somebody else decides here"
	HiddenChange = "what it rests on has just changed, or is not applied everywhere yet"
	HiddenNext   = "ask whoever runs what you dial: you may not be told more"
)

// Problem returns err, or a general error when the text of err must be hidden from the asker.
func (s *Limits) Problem(err error) error {
	if s.Tells(err.Error()) {
		return errors.New("that cannot be told: what you ask for is not there, or not yours")
	}
	return err
}
