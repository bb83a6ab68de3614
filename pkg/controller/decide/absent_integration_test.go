//go:build integration

package decide_test

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/ovn"
)

// A Node that is deleted and registered again takes nothing from its pods meanwhile, whether the controller stays or another one
// begins: faces are reached by way of the node, and the node reaches pods of the default Network. When it is shut out it has
// nothing any more.
func TestANodeThatIsRegisteredAgainWithPackets(t *testing.T) {
	g := newFaceStage(t)
	system, web := g.pod("kube-system", "near"), g.pod("a", "web")
	g.pod("r", "server")
	g.serve(web, facePort+1, "web")
	ways := []struct {
		what    string
		who     *ovn.Guest
		to      [2]string
		answers string
		open    talk
	}{
		{what: "infrastructure to a face", who: system, to: g.to("r", "server"), answers: "face sees "},
		{what: "the node to a pod", who: g.node, answers: "web sees "},
	}
	for i := range 2 {
		ways[1].to[i] = strings.Replace(g.to("a", "web")[i], ":8080", ":8081", 1)
	}
	for i, w := range ways {
		open, err := dial(t, w.who, "tcp", w.to[0])
		if err != nil {
			t.Fatalf("%s: %v", w.what, err)
		}
		ways[i].open = open
	}
	answered := func(when string) {
		t.Helper()
		g.sync()
		for _, w := range ways {
			for _, address := range w.to {
				if got := asks(t, w.who, "tcp", address); !strings.HasPrefix(got, w.answers) {
					t.Errorf("%s, %s at %s: %q", when, w.what, address, got)
				}
			}
			if got, err := w.open.ask(); !strings.HasPrefix(got, w.answers) {
				t.Errorf("%s, %s by the connection from before: %q, %v", when, w.what, got, err)
			}
		}
	}
	answered("while the Node is there")
	g.deleteNode("n1")
	g.pod("a", "later") // The controller has seen the Node go.
	answered("while it is not")
	g.engine.stop()
	g.replay(g.namespaces)
	g.engine = startEngineOf(t, g.cluster, g.central.NBAddress(), "2", stageSettings())
	g.pod("a", "latest")
	answered("when another controller has begun")
	again := node("n1", 9)
	again.UID = "uid-again"
	g.setNode(again)
	eventually(t, again.UID, func() string { return g.nodeHas("n1").NodeUID })
	answered("when it is there again")

	g.deleteNode("n1")
	g.pod("a", "last")
	answered("while it is not, once more")
	g.setShutOut("n1")
	eventually(t, "", func() string {
		return nbctl(t, g.central, "--bare", "--columns=name", "find", "Logical_Switch_Port", "name=\"default:node:n1\"")
	})
	g.sync()
	for _, w := range ways {
		if got := asks(t, w.who, "tcp", w.to[0]); got != "i/o timeout" && got != "no route to host" {
			t.Errorf("when it is shut out, %s: %q", w.what, got)
		}
	}
}
