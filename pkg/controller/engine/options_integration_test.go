//go:build integration

package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// TestNoNodeTurnsOVNToVXLAN: with the options of a database that is Atoll's alone, a chassis that says that it takes VXLAN changes
// nothing. Without, it leaves no room for more
// than 4,095 switches and routers. ovn-northd says how many there may be.
func TestNoNodeTurnsOVNToVXLAN(t *testing.T) {
	own := map[string]string{nb.OptionVXLAN: nb.OptionOff}
	for name, test := range map[string]struct {
		options map[string]string
		room    string
	}{"ours": {own, "16711680"}, "theirs": {nil, "4095"}} {
		t.Run(name, func(t *testing.T) {
			c := ovn.Start(t, true)
			session, err := ovsdb.Open(t.Context(), databaseOf(c))
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			encoder := plan.NewEncoder(session.Schema())
			global, _ := session.Global()
			if err := enter(t.Context(), session, encoder.SetEpoch("one", global, test.options), encoder, global); err != nil {
				t.Fatal(err)
			}
			if global, _ = session.Global(); !upheld(global, Config{Epoch: "one", Options: test.options}) {
				t.Errorf("what was written is not there: %v", global)
			}
			nbctl(t, c, "--wait=sb sync")
			if _, err := c.SBCtl(t.Context(), "chassis-add", "thief", "vxlan", "192.0.2.66"); err != nil {
				t.Fatal(err)
			}
			// ovn-northd has seen the chassis once it has done what came after it.
			nbctl(t, c, "--wait=sb ls-add sw")
			wait.Until(t, 5*time.Second, "room for "+test.room, func() bool {
				out, err := c.NBCtl(t.Context(), "get", "NB_Global", ".", "options:max_tunid")
				return err == nil && strings.Trim(out, "\" \n") == test.room
			})
			nbctl(t, c, "set NB_Global . options:vxlan_mode=true")
			wait.Until(t, 5*time.Second, "a change of the option counts where it is ours alone", func() bool {
				global, _ := session.Global()
				return upheld(global, Config{Epoch: "one", Options: test.options}) == (test.options == nil) && global.Options[nb.OptionVXLAN] == "true"
			})
		})
	}
}
