package explained

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Kind is what of the other end is asked for.
type Kind string

// The kinds of questions.
const (
	ToPod            Kind = "pod by name"
	ToOwn            Kind = "a pod's own address"
	ToOwnOf          Kind = "an address of a Network that is named"
	ToFace           Kind = "face"
	ToService        Kind = "Service by name"
	ToServiceAddress Kind = "Service by address"
	ToName           Kind = "DNS name"
	ToOutside        Kind = "outside"
	ToNode           Kind = "node"
	ToAPI            Kind = "Kubernetes API"
	FromNode         Kind = "from a node"
	FromOutside      Kind = "from outside"
)

// Kinds are all, each as often as it is asked in a round.
func Kinds() []Kind {
	return []Kind{
		ToPod, ToOwn, ToFace, ToServiceAddress, ToService, ToName, ToPod, ToOwn, ToFace, ToOwnOf,
		ToOutside, ToNode, ToAPI, FromNode, ToService, ToName, ToPod, ToOwn, ToFace, FromOutside,
	}
}

// Service is one of a stage's. Its pods listen at its port, wire.DefaultPort, by TCP and UDP.
type Service struct {
	Namespace, Name string
	// Addresses are all that it has: ClusterIPs, and those in its own Network.
	Addresses []netip.Addr
}

// Stage is whom questions may be about.
type Stage struct {
	Pods []random.Placed
	// Mute are the UIDs of pods that may not send or record echoes.
	Mute     []string
	Services []Service
	// Nodes have the addresses of each node.
	Nodes map[string][]netip.Addr
	// Anywhere are the addresses that explain takes for outside: somebody answers there by TCP. Outside are a server's there,
	// OutsideName leads to it.
	Anywhere, Outside []netip.Addr
	OutsideName       string
	// API are the addresses of the Kubernetes API's Service, APIServer where a server of it is.
	API       []netip.Addr
	APIServer netip.AddrPort
}

// Question is one path.
type Question struct {
	Kind Kind
	// From indexes Stage.Pods; -1 when Place sends: a node, or outside.
	From  int
	Place string
	// Spec is what explain is asked.
	Spec api.ExplanationSpec
	// Name is looked up by the sender, and what it leads to is dialled; else Dial is.
	Name string
	Dial []netip.Addr
	// Meant is the UID of the pod that is asked for, whatever addresses others have.
	Meant string
	// Strange: who answers is no pod of the stage; a connection is an answer.
	Strange bool
}

// String is the question as a command.
func (q Question) String() string {
	text := fmt.Sprintf("atoll explain %s %s --protocol %s", q.Spec.From, q.Spec.To, q.Spec.Protocol)
	if q.Spec.Port != 0 {
		text += fmt.Sprintf(" --port %d", q.Spec.Port)
	}
	if q.Spec.Network != "" {
		text += " --network " + q.Spec.Network
	}
	return text
}

// Ports that are dialled beside wire.DefaultPort.
const (
	// otherPort is one where pods listen and policies do not name it; who connects is not told to whom.
	otherPort   = wire.HTTPPort
	kubeletPort = 10250
	apiPort     = 443
)

// Draw draws questions by a seed, of each kind in turn. The same seed and stage give the same questions.
func Draw(seed uint64, stage Stage, count int) []Question {
	d := drawer{rand.New(rand.NewPCG(seed, 3)), stage}
	kinds := Kinds()
	var out []Question
	for i := 0; len(out) < count; i++ {
		if q, can := d.question(kinds[i%len(kinds)]); can {
			out = append(out, q)
		}
	}
	return out
}

// drawer draws from a stage.
type drawer struct {
	*rand.Rand
	Stage
}

func (d drawer) pod() (int, random.Placed) {
	i := d.IntN(len(d.Pods))
	return i, d.Pods[i]
}

// api asks for the Kubernetes API, by the address of its Service or by its server's.
func (d drawer) api(q *Question) {
	q.Strange, q.Spec.Port = true, apiPort
	if q.address(d.API[d.IntN(len(d.API))]); d.IntN(2) == 0 {
		q.address(d.APIServer.Addr())
		q.Spec.Port = d.APIServer.Port()
	}
}

// question draws one of a kind; false where the ends that came up have nothing to say to each other.
func (d drawer) question(kind Kind) (Question, bool) {
	i, from := d.pod()
	q := Question{Kind: kind, From: i, Spec: api.ExplanationSpec{From: from.String(), Port: wire.DefaultPort}}
	d.byFace(&q, from)
	protocols := []wire.Protocol{wire.TCP, wire.UDP, wire.ICMP}
	_, to := d.pod()
	switch kind {
	case ToPod:
		q.Meant, q.Dial, q.Spec.To = to.UID, slices.Concat(to.Own, to.Faces), to.String()
	case ToOwnOf:
		q.Meant, q.Dial = to.UID, slices.Concat(to.Own, to.Faces)
		q.Spec.From, q.Spec.Network, q.Spec.To = from.String(), to.Network, to.Own[d.IntN(len(to.Own))].String()
		if to.Network == from.Network {
			return q, false // asked with the own Network it means the address alone
		}
	case ToOwn:
		q.address(to.Own[d.IntN(len(to.Own))])
	case ToFace:
		if len(to.Faces) == 0 {
			return q, false
		}
		q.address(to.Faces[d.IntN(len(to.Faces))])
	case ToService, ToServiceAddress, ToName:
		d.service(&q, kind, from)
	case ToOutside:
		d.outside(&q)
		protocols = protocols[:1]
	case ToNode:
		name := d.node()
		q.Spec.To, q.Dial, q.Strange, q.Spec.Port = "node/"+name, d.Nodes[name], true, kubeletPort
		protocols = []wire.Protocol{wire.TCP, wire.ICMP}
	case ToAPI:
		d.api(&q)
		protocols = protocols[:1]
	case FromNode, FromOutside:
		d.place(&q, kind, to)
		protocols = protocols[:2]
	}
	protocol := protocols[d.IntN(len(protocols))]
	if slices.Contains(d.Mute, from.UID) && protocol == wire.ICMP || slices.Contains(d.Mute, to.UID) {
		protocol = wire.TCP
	}
	d.by(&q, protocol)
	if q.Place == "" {
		q.Dial = d.Spoken(i, q.Dial)
	}
	return q, (q.Place != "" || q.Meant != from.UID) && (q.Name != "" || len(q.Dial) > 0)
}

// byFace sometimes names the sender by its face, which belongs to one pod alone.
func (d drawer) byFace(q *Question, from random.Placed) {
	if len(from.Faces) > 0 && d.IntN(8) == 0 {
		q.Spec.From = from.Faces[0].String()
	}
}

// by sets the protocol, and sometimes another port by TCP.
func (d drawer) by(q *Question, protocol wire.Protocol) {
	q.Spec.Protocol = string(protocol)
	if protocol == wire.ICMP {
		q.Spec.Port = 0
	} else if protocol == wire.TCP && q.Spec.Port == wire.DefaultPort && !q.Strange && d.IntN(6) == 0 {
		q.Spec.Port = otherPort
	}
}

// address has the question be about an address as the sender dials it.
func (q *Question) address(a netip.Addr) { q.Spec.To, q.Dial = a.String(), []netip.Addr{a} }

// service is about a Service by its name, by its addresses or by what the sender looks up.
func (d drawer) service(q *Question, kind Kind, from random.Placed) {
	s := d.Services[d.IntN(len(d.Services))]
	switch kind {
	case ToService:
		q.Spec.To, q.Dial = fmt.Sprintf("svc/%s/%s", s.Namespace, s.Name), s.Addresses
	case ToServiceAddress:
		q.address(s.Addresses[d.IntN(len(s.Addresses))])
	default:
		names := []string{s.Name + "." + s.Namespace + ".svc.cluster.local", s.Name + "." + s.Namespace + ".svc", s.Name + "." + s.Namespace}
		if s.Namespace == from.Namespace {
			names = append(names, s.Name)
		}
		q.Name = names[d.IntN(len(names))]
		switch d.IntN(8) {
		case 0:
			q.Name, q.Strange, q.Spec.Port = "kubernetes.default.svc", true, apiPort
		case 1:
			q.Name, q.Strange = d.OutsideName, true
		case 2:
			q.Name = "none." + s.Namespace + ".svc"
		}
		q.Spec.To = q.Name
	}
}

// outside is about outside in general, or a server there.
func (d drawer) outside(q *Question) {
	q.Strange = true
	if d.IntN(2) == 0 {
		q.Spec.To, q.Dial = "outside", d.Anywhere
		return
	}
	q.address(d.Outside[d.IntN(len(d.Outside))])
}

func (d drawer) node() string {
	names := make([]string, 0, len(d.Nodes))
	for name := range d.Nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names[d.IntN(len(names))]
}

// place has a node or somebody outside send, to a pod, or a node to a Service.
func (d drawer) place(q *Question, kind Kind, to random.Placed) {
	q.From, q.Place, q.Spec.From = -1, OutsidePlace, "outside"
	if kind == FromNode {
		q.Place = d.node()
		q.Spec.From = "node/" + q.Place
		if d.IntN(3) == 0 {
			s := d.Services[d.IntN(len(d.Services))]
			q.Spec.To, q.Dial = fmt.Sprintf("svc/%s/%s", s.Namespace, s.Name), s.Addresses
			return
		}
	}
	q.Meant, q.Spec.To, q.Dial = to.UID, to.String(), slices.Concat(to.Own, to.Faces)
}

// OutsidePlace is the place of who is outside.
const OutsidePlace = "outside"

// Spoken are those of some addresses whose family a pod speaks.
func (s Stage) Spoken(from int, addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return !speaks(s.Pods[from], a) })
}

// speaks: a pod has an address of that family, without which it sends nothing to it.
func speaks(p random.Placed, to netip.Addr) bool {
	return slices.ContainsFunc(p.Own, func(a netip.Addr) bool { return a.Is4() == to.Is4() })
}
