package connectivity

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
)

// prefix begins the names of all Networks and namespaces.
const prefix = "atoll-connectivity-"

// The namespaces, without the prefix. Red and blue have Networks of the same names and of the same addresses; plain is in the
// cluster's default Network, and so is infra, which is infrastructure.
const (
	red   = "red"
	blue  = "blue"
	plain = "plain"
	infra = "infra"
)

// The pods. Red's server and blue's have the same address, on the same node; blue's lonely has an address that red has not.
var (
	redServer  = podName{red, "server"}
	redNear    = podName{red, "near"}
	redFar     = podName{red, "far"}
	blueServer = podName{blue, "server"}
	blueLonely = podName{blue, "lonely"}
	plainPod   = podName{plain, "client"}
	infraPod   = podName{infra, "client"}
)

// web is the Service of each of the two Networks, and peers the headless one of red.
const (
	web   = "web"
	peers = "peers"
)

// podName is a pod as the table has it: its namespace without the prefix.
type podName struct{ namespace, name string }

func (p podName) String() string { return p.namespace + "/" + p.name }

// full is the pod as kubectl knows it.
func (p podName) full() string { return prefix + p.String() }

// pod is one of the test's pods.
type pod struct {
	podName
	// node is where it is to run.
	node string
	// address is its own, in its Network; and face the one that the cluster knows it by.
	address, face netip.Addr
	// uid is what its answers carry.
	uid string
	// running: its container runs, so that it can be asked. ready: the kubelet's probe finds it.
	running, ready bool
	// why says what is missing, and took how long it was until it was Ready.
	why  string
	took time.Duration
}

// nodeWithout is a node without a network, and what its kubelet says of it.
type nodeWithout struct{ name, why string }

// scene is what is there to ask about.
type scene struct {
	// nodes are the one or two that the pods are on.
	nodes []string
	// withoutNetwork are those whose kubelets wait for a network.
	withoutNetwork []nodeWithout
	// nodeAddress is one of the first node's.
	nodeAddress netip.Addr
	pods        []pod
	// redWeb and blueWeb are the ClusterIPs of the Services, api that of the Kubernetes API, and nodePort red's.
	redWeb, blueWeb, api netip.Addr
	nodePort             int
	// external is HOST:PORT outside of the cluster; empty: none was named.
	external string
	// faces: the cluster has faces for pods of Networks.
	faces bool
	// plainDirect: the default Network reaches nodes, so that its pods reach node ports. noPlain says why no pod is in a default Network.
	plainDirect bool
	noPlain     string
}

// pod is the pod of a name.
func (s scene) pod(name podName) pod {
	if i := slices.IndexFunc(s.pods, func(p pod) bool { return p.podName == name }); i >= 0 {
		return s.pods[i]
	}
	return pod{podName: name, why: "it is not there"}
}

// addressOf is where a pod answers inside its Network, and faceOf where it does for those outside.
func (s scene) addressOf(name podName) string { return at(s.pod(name).address, probe.Port) }
func (s scene) faceOf(name podName) string    { return at(s.pod(name).face, probe.Port) }

// at is HOST:PORT; empty while the address is not known.
func at(address netip.Addr, port int) string {
	if !address.IsValid() || port == 0 {
		return ""
	}
	return netip.AddrPortFrom(address, uint16(port)).String()
}

var portText = strconv.Itoa(probe.Port)
