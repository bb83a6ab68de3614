package connectivity

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
)

const (
	// answerWithin is how long an answer may take that is expected; rows of OVN may be under way.
	answerWithin = 15 * time.Second
	// silenceFor is how long it is tried to reach what must not answer, and missingFor to find a name that must not exist.
	silenceFor = 4 * time.Second
	missingFor = time.Second
)

// kubeletPort is where a node's kubelet listens.
const kubeletPort = 10250

// wanted is what is expected of a path. One of its fields is set.
type wanted struct {
	// answerers are the pods of which one has to answer.
	answerers []podName
	// nobody: nobody may answer, whoever it is.
	nobody bool
	// missing: the name must not exist.
	missing bool
	// something: a connection comes about, the API answers as itself, or the name stands for what the question says.
	something bool
}

// path is one way that is tried.
type path struct {
	title    string
	from     podName
	question probe.Question
	wanted   wanted
	// needs are pods that have to run for the path to prove something.
	needs []podName
	// next is the command that says more when it is not as expected.
	next string
	// skipped says why it is not tried, for good.
	skipped string
}

// opened is a path on which one of the pods has to answer.
func opened(title string, from podName, kind probe.Kind, target string, answerers ...podName) path {
	p := path{
		title: title, from: from, question: probe.Question{Kind: kind, Target: target, Patience: answerWithin},
		wanted: wanted{answerers: answerers},
	}
	if len(answerers) == 1 {
		p.needs = answerers
	}
	return p
}

// shut is a path on which nobody may answer, though the pods that could do run.
func shut(title string, from podName, kind probe.Kind, target string, needs ...podName) path {
	return path{
		title: title, from: from, question: probe.Question{Kind: kind, Target: target, Patience: silenceFor}, wanted: wanted{nobody: true},
		needs: needs,
	}
}

// resolves is a name that has to stand for the addresses, and denied one that must not exist.
func resolves(title string, from podName, name string, addresses ...netip.Addr) path {
	return path{
		title: title, from: from, question: probe.Question{Kind: probe.Name, Target: name, Addresses: addresses, Patience: answerWithin},
		wanted: wanted{something: true},
	}
}

func denied(title string, from podName, name string) path {
	return path{
		title: title, from: from, question: probe.Question{Kind: probe.Name, Target: name, Patience: missingFor}, wanted: wanted{missing: true},
	}
}

// connects is an address to which a connection has to come about.
func connects(title string, from podName, target string) path {
	return path{
		title: title, from: from, question: probe.Question{Kind: probe.Connect, Target: target, Patience: answerWithin},
		wanted: wanted{something: true},
	}
}

// asksAPI is the Kubernetes API, by a name or, without one, as the pod's environment has it.
func asksAPI(title string, from podName, target string) path {
	return path{
		title: title, from: from, question: probe.Question{Kind: probe.API, Target: target, Patience: answerWithin},
		wanted: wanted{something: true},
	}
}

// pathsOf are the paths that are tried while no policy is there.
func pathsOf(s scene) []path {
	var all []path
	all = append(all, insidePaths(s)...)
	all = append(all, isolationPaths(s)...)
	all = append(all, servicePaths(s)...)
	all = append(all, namePaths(s)...)
	all = append(all, infrastructurePaths(s)...)
	return explained(s, all)
}

// insidePaths are between pods of one Network.
func insidePaths(s scene) []path {
	far := []path{
		opened("pod, another node, TCP", redNear, probe.HTTP, s.addressOf(redFar), redFar),
		opened("pod, another node, UDP", redNear, probe.UDP, s.addressOf(redFar), redFar),
	}
	if len(s.nodes) < 2 {
		for i := range far {
			far[i].skipped = "there is one node"
		}
	}
	face := opened("pod's face, inside its Network", redNear, probe.HTTP, s.faceOf(redFar), redFar)
	if !s.faces {
		face.skipped = noFaces
	}
	return append([]path{
		opened("pod, same node, TCP", redNear, probe.HTTP, s.addressOf(redServer), redServer),
		opened("pod, same node, UDP", redNear, probe.UDP, s.addressOf(redServer), redServer),
	}, append(far, face)...)
}

const noFaces = "the AtollConfig gives pods no faces"

// isolationPaths are between Networks of the same addresses.
func isolationPaths(s scene) []path {
	same := "same address in both Networks: the own pod answers"
	all := []path{
		opened(same, redFar, probe.HTTP, s.addressOf(redServer), redServer),
		opened(same, blueLonely, probe.HTTP, s.addressOf(blueServer), blueServer),
		shut("address that only the other Network has, TCP", redNear, probe.HTTP, s.addressOf(blueLonely), blueLonely),
		shut("address that only the other Network has, UDP", redNear, probe.UDP, s.addressOf(blueLonely), blueLonely),
		shut("address that only the other Network has, TCP", blueServer, probe.HTTP, s.addressOf(redFar), redFar),
		shut("ClusterIP of the other Network's Service", redNear, probe.HTTP, at(s.blueWeb, probe.Port), blueServer),
		shut("ClusterIP of the other Network's Service", blueServer, probe.HTTP, at(s.redWeb, probe.Port), redServer),
	}
	faces := []path{
		shut("face of the other Network's pod", redNear, probe.HTTP, s.faceOf(blueLonely), blueLonely),
		shut("face of the other Network's pod", blueServer, probe.HTTP, s.faceOf(redFar), redFar),
	}
	if !s.faces {
		for i := range faces {
			faces[i].skipped = noFaces
		}
	}
	return append(all, faces...)
}

func servicePaths(s scene) []path {
	return []path{
		opened("Service, ClusterIP, TCP", redNear, probe.HTTP, at(s.redWeb, probe.Port), redServer, redFar),
		opened("Service, ClusterIP, UDP", redNear, probe.UDP, at(s.redWeb, probe.Port), redServer, redFar),
		opened("Service, ClusterIP, by its name", redNear, probe.HTTP, net.JoinHostPort(web, portText), redServer, redFar),
		opened("Service, headless, by its name", redNear, probe.HTTP, net.JoinHostPort(peers, portText), redServer, redNear, redFar),
		opened("Service, ClusterIP, by its name", blueServer, probe.HTTP, net.JoinHostPort(web, portText), blueServer, blueLonely),
	}
}

func namePaths(s scene) []path {
	own := []netip.Addr{s.pod(redServer).address, s.pod(redNear).address, s.pod(redFar).address}
	return []path{
		resolves("name of an own Service", redNear, web, s.redWeb),
		resolves("name of an own Service", blueServer, web, s.blueWeb),
		resolves("name of a headless Service: own addresses", redNear, peers, own...),
		denied("name of the other Network's Service", redNear, web+"."+prefix+blue+".svc"),
		denied("name of the other Network's Service", blueServer, web+"."+prefix+red+".svc"),
		resolves("name of the Kubernetes API", redNear, apiName, s.api),
	}
}

const apiName = "kubernetes.default.svc"

// infrastructurePaths are from Networks to nodes and the default Network, and from there to Networks.
func infrastructurePaths(s scene) []path {
	all := []path{
		asksAPI("Kubernetes API", redNear, ""),
		asksAPI("Kubernetes API", blueServer, ""),
		asksAPI("Kubernetes API, by its name", redNear, net.JoinHostPort(apiName, "443")),
		shut("kubelet of a node", redNear, probe.Connect, at(s.nodeAddress, kubeletPort)),
		shut("node port", redNear, probe.HTTP, at(s.nodeAddress, s.nodePort), redServer),
	}
	flat := []path{
		shut("pod of the default Network", redNear, probe.HTTP, s.addressOf(plainPod), plainPod),
		opened("default Network: pod to pod", plainPod, probe.HTTP, s.addressOf(infraPod), infraPod),
		resolves("default Network: name of the Kubernetes API", plainPod, apiName, s.api),
		asksAPI("default Network: Kubernetes API", plainPod, ""),
	}
	faces := []path{
		shut("default Network: face of a Network's pod", plainPod, probe.HTTP, s.faceOf(redServer), redServer),
		shut("default Network: ClusterIP of a Network's Service", plainPod, probe.HTTP, at(s.redWeb, probe.Port), redServer),
		opened("infrastructure, as an ingress: face of a Network's pod", infraPod, probe.HTTP, s.faceOf(redFar), redFar),
		opened("infrastructure, as an ingress: ClusterIP", infraPod, probe.HTTP, at(s.redWeb, probe.Port), redServer, redFar),
	}
	nodePort := opened("node port, as from outside", plainPod, probe.HTTP, at(s.nodeAddress, s.nodePort), redServer, redFar)
	if !s.plainDirect {
		nodePort.skipped = "pods of the default Network do not reach nodes: dial a node port from outside yourself"
	}
	faces = append(faces, nodePort)
	for i := range faces {
		if !s.faces {
			faces[i].skipped = noFaces
		}
	}
	flat = append(flat, faces...)
	for i := range flat {
		if s.noPlain != "" {
			flat[i].skipped = s.noPlain
		}
	}
	return append(all, flat...)
}

// outsidePaths are those to an address outside of the cluster that the user has named. Red has a way out, and blue has none.
// found is the address that red's connection led to, when it is known.
func outsidePaths(s scene, found netip.Addr) []path {
	const title = "outside of the cluster"
	if s.external == "" {
		return []path{{title: title, from: redNear, skipped: "name an address that answers: --external HOST:PORT"}}
	}
	host, port, _ := net.SplitHostPort(s.external)
	if !found.IsValid() {
		all := []path{connects(title+", egress node", redNear, s.external)}
		if _, err := netip.ParseAddr(host); err != nil {
			all = append(all, resolves("name outside of the cluster, egress node", redNear, strings.TrimSuffix(host, ".")+"."))
		}
		return explained(s, all)
	}
	all := []path{shut(title+", egress none", blueServer, probe.Connect, net.JoinHostPort(found.String(), port))}
	if _, err := netip.ParseAddr(host); err != nil {
		all = append(all, denied("name outside of the cluster, egress none", blueServer, strings.TrimSuffix(host, ".")+"."))
	}
	return explained(s, all)
}

// denyingPaths are tried while a policy shuts red's pod far, and allowingPaths when another one admits red's pod near to it.
func denyingPaths(s scene) []path {
	return explained(s, []path{
		shut("policy that denies: who was heard before", redNear, probe.HTTP, s.addressOf(redFar), redFar),
		opened("policy that denies: another pod goes on", redNear, probe.HTTP, s.addressOf(redServer), redServer),
		opened("policy that denies: another Network goes on", blueServer, probe.HTTP, s.addressOf(blueLonely), blueLonely),
	})
}

func allowingPaths(s scene) []path {
	return explained(s, []path{
		opened("policy that allows: whom it admits", redNear, probe.HTTP, s.addressOf(redFar), redFar),
		shut("policy that allows: somebody else", redServer, probe.HTTP, s.addressOf(redFar), redFar),
	})
}

// explained says of each path which command says more, and of one that cannot be tried why not.
func explained(s scene, all []path) []path {
	for i := range all {
		p := &all[i]
		if p.skipped != "" {
			continue
		}
		p.next = explain(p.from, p.question)
		if p.question.Target == "" && p.question.Kind != probe.API {
			p.skipped = "what is dialled has no address"
		}
		for _, one := range append([]podName{p.from}, p.needs...) {
			if !s.pod(one).running {
				p.skipped = fmt.Sprintf("pod %s does not run", one)
			}
		}
	}
	return all
}

// explain is the command that follows such a packet.
func explain(from podName, q probe.Question) string {
	to, port, protocol := q.Target, portText, ""
	switch q.Kind {
	case probe.Name:
		to = strings.TrimSuffix(to, ".")
	case probe.API:
		to, port = apiName, "443"
	case probe.UDP:
		protocol = " --protocol udp"
	}
	if host, named, err := net.SplitHostPort(to); err == nil {
		to, port = host, named
	}
	return fmt.Sprintf("atoll explain %s %s --port %s%s", from.full(), to, port, protocol)
}
