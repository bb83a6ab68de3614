//go:build integration

package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// TestARaftClusterMayLoseItsLeader: the engine finds the next one, and every pod that came meanwhile is there.
func TestARaftClusterMayLoseItsLeader(t *testing.T) {
	cluster, c := ovn.StartCluster(t), newCluster()
	startEngine(t, c, strings.Join(cluster.Addresses(), ","), "one")
	c.setNamespace("red", map[string]string{model.LabelNetwork: "red"})
	c.setNetwork(network("red", "front", "10.0.0.0/16"))
	for i := range 300 {
		c.setPod(pod("red", fmt.Sprintf("p-%03d", i), ""))
		if i == 150 {
			leader, err := cluster.Leader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cluster.Kill(leader)
		}
	}
	// Each pod has a port; the subnet's switch has one to the router, the edge's that and the porthole.
	took := eventually(t, "303", func() string {
		out, err := cluster.NBCtl(t.Context(), "--bare", "--columns=name", "list", "Logical_Switch_Port")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(len(strings.Fields(out)))
	})
	t.Logf("all rows after %v", took.Round(time.Millisecond))
}
