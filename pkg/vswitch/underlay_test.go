package vswitch

import (
	"fmt"
	"testing"
)

func TestServers(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"tcp:10.0.0.1:6642":                          "[10.0.0.1:6642]",
		"ssl:10.0.0.2:6642, ssl:10.0.0.1:6642":       "[10.0.0.1:6642 10.0.0.2:6642]",
		"ssl:[fd00::1]:6642":                         "[[fd00::1]:6642]",
		"tcp:10.0.0.1":                               "[10.0.0.1:6640]",
		"tcp:[::ffff:10.0.0.1]:6642":                 "[10.0.0.1:6642]",
		"unix:/var/run/ovn/ovnsb_db.sock":            "[]",
		"ssl:ovn.example.com:6642,tcp:10.0.0.1:6642": "[10.0.0.1:6642]",
		"": "[]",
		"tcp:10.0.0.1:6642,tcp:10.0.0.1:6642,tcp:1.2.3:x:y": "[10.0.0.1:6642]",
	} {
		if got := fmt.Sprint(Servers(list)); got != want {
			t.Errorf("%q names %s, want %s", list, got, want)
		}
	}
}
