package agent

import "testing"

func TestBridgeSocketIsBesideTheDatabase(t *testing.T) {
	t.Parallel()
	if got := bridgeSocket("unix:/var/run/openvswitch/db.sock", "br-int"); got != "/var/run/openvswitch/br-int.mgmt" {
		t.Errorf("got %s", got)
	}
}
